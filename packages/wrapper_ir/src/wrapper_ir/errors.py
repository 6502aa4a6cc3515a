"""All exceptions that wrapper_ir raises, each with a stable code.

A released code never changes its meaning; `docs/errors.md` lists them all. The verifier collects findings as
`Diagnostic` values and raises them as one `VerificationError`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.escapes import printable


class WirError(Exception):
    """Base of all errors of this package. `code` is stable; `hint` tells the user what to do next."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(f"[{code}] {message}" + (f"\n  hint: {hint}" if hint else ""))

    def locate(self, place: str) -> None:
        """Appends a place to the message; the class stays, so handlers still match."""
        WirError.__init__(self, self.code, self.message + place, hint=self.hint)


def code_of(error: BaseException) -> str:
    """Returns the code of an error: its own, or the one in a note on another library's error; '' if it has
    none."""
    if isinstance(error, WirError):
        return error.code
    notes = getattr(error, "__notes__", ())  # absent before `add_note`
    return next((note[1:].split("]")[0] for note in notes if note.startswith("[WIR")), "")


class BuildError(WirError):
    """An op or a program is built incorrectly (WIR3nn)."""


class ExpressionError(WirError, ValueError):
    """A symbolic expression is malformed, or cannot be converted, solved or evaluated (WIR4nn)."""


class DivisionError(ExpressionError, ZeroDivisionError):
    """A division by zero in a symbolic expression (WIR402)."""


class LoweringError(WirError):
    """A program cannot be lowered to a plan (WIR24n): the verifier refuses it, or a schema's default cannot
    be read."""


class ParseError(WirError):
    """The text or JSON form is malformed (WIR5nn); `line` and `column` are 1-based, 0 where unknown."""

    def __init__(self, code: str, message: str, *, line: int = 0, column: int = 0, hint: str = "") -> None:
        self.line = line
        self.column = column
        place = f"line {line}, column {column}: " if line else ""
        super().__init__(code, place + message, hint=hint)


class StoreError(WirError):
    """The cache on disk is unusable or its settings are invalid (WIR25n), or a file to load has no entries
    (WIR260)."""


class StoreWarning(RuntimeWarning):
    """A part of the cache on disk is unusable, and work continues without it (WIR25n). `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"[{code}] {message}")


class DebugWarning(RuntimeWarning):
    """Values are not shown because a filter matches nothing (WIR806) or a device captures the function
    (WIR807). `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"[{code}] {message}")


class ReportError(WirError):
    """A report cannot be written (WIR27n)."""


class SchemaError(WirError):
    """An operator schema cannot be parsed, or a call does not match it (WIR6nn)."""


class ArtifactError(WirError):
    """A `.wir` file is damaged, unsafe, or of an unknown version (WIR7nn)."""


class DebugError(WirError):
    """A debugging tool cannot do what is requested (WIR95n)."""


class PassError(WirError):
    """A pass or a pipeline text is invalid, or a pass broke the program (WIR8nn)."""


class PluginError(WirError):
    """An entry point is missing, ambiguous or broken (WIR90n)."""


class NotSupportedError(WirError, NotImplementedError):
    """A target does not support an op (WIR91n). The message names the op, its place and a workaround."""


class ExecutionError(WirError, RuntimeError):
    """A program failed at run time: a failed assertion, an invalid launch, wrong arguments (WIR92n,
    WIR93n)."""


class ArgumentError(ExecutionError, TypeError):
    """A call has missing, excess or repeated arguments (WIR926)."""


class CopyError(ExecutionError, TypeError):
    """A compiled program cannot be pickled or copied (WIR940); a TypeError, as for other such objects."""


class TensorCheckError(ExecutionError, AssertionError):
    """A tensor has a layout other than declared (WIR921), or a NaN or an infinity (WIR922), as Inductor
    asserts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One verifier finding: its `code` (WIR0nn, for signatures WIR1nn), check, and place in the program."""

    code: str
    check: str
    message: str
    function: str = ""
    op_index: int = -1
    context: str = ""
    """The printed op with its neighbors and a marker under it; empty for program-level findings."""
    source: str = ""
    """The source op and file:line from the op's provenance, if known."""

    def __str__(self) -> str:
        place = f" in @{self.function}" if self.function else ""
        place += f" op {self.op_index}" if self.op_index >= 0 else ""
        text = printable(f"[{self.code}] {self.check}{place}: {self.message}")
        if self.source:
            text += f"\n  from {printable(self.source)}"
        return text + (f"\n{self.context}" if self.context else "")


class VerificationError(WirError):
    """A program violates at least one rule. `diagnostics` has all findings; the first one determines the
    code."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        first = diagnostics[0]
        more = f"\n({len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        super().__init__(first.code, str(first) + more)

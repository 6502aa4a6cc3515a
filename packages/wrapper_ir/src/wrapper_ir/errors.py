"""Every exception that wrapper_ir raises, each with a stable code.

A code never changes its meaning once released; `docs/errors.md` lists them all. Verifier findings are
`Diagnostic` values first (so that many can be collected) and become one `VerificationError` when raised.
"""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.escapes import printable


class WirError(Exception):
    """Base of all errors of this package: `code` is stable, `hint` says what to do next."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(f"[{code}] {message}" + (f"\n  hint: {hint}" if hint else ""))

    def locate(self, place: str) -> None:
        """Adds where it happened to the message; the class stays, by which callers tell errors apart."""
        WirError.__init__(self, self.code, self.message + place, hint=self.hint)


def code_of(error: BaseException) -> str:
    """The code of an error that leaves a program: of ours, or of the note on an error of others; empty: it has none."""
    if isinstance(error, WirError):
        return error.code
    notes = getattr(error, "__notes__", ())
    return next((note[1:].split("]")[0] for note in notes if note.startswith("[WIR")), "")


class BuildError(WirError):
    """An op or a program was put together wrongly (WIR3nn)."""


class ExpressionError(WirError, ValueError):
    """A symbolic expression is malformed, or cannot be converted, solved or evaluated (WIR4nn)."""


class DivisionError(ExpressionError, ZeroDivisionError):
    """A division by zero in a symbolic expression (WIR402)."""


class LoweringError(WirError):
    """A program cannot be lowered to a plan (WIR24n): the verifier refuses it, or a schema's default cannot be read."""


class ParseError(WirError):
    """The text or JSON form is malformed (WIR5nn); `line` and `column` are 1-based, 0 where unknown."""

    def __init__(self, code: str, message: str, *, line: int = 0, column: int = 0, hint: str = "") -> None:
        self.line = line
        self.column = column
        place = f"line {line}, column {column}: " if line else ""
        super().__init__(code, place + message, hint=hint)


class StoreError(WirError):
    """The cache on disk cannot be used, its settings make no sense (WIR25n), or what is loaded into it holds no entries (WIR260)."""


class StoreWarning(RuntimeWarning):
    """The cache on disk is not as it should be, and work goes on without a part of it (WIR25n): `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"[{code}] {message}")


class DebugWarning(RuntimeWarning):
    """Values are not shown as asked: a filter names nothing (WIR806), or a device records a function (WIR807). `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"[{code}] {message}")


class ReportError(WirError):
    """A report cannot be written (WIR27n)."""


class SchemaError(WirError):
    """An operator schema string cannot be understood, or a call does not fit it (WIR6nn)."""


class ArtifactError(WirError):
    """A `.wir` file is damaged, unsafe or of an unknown version (WIR7nn)."""


class DebugError(WirError):
    """What a debugging tool is asked for cannot be done (WIR95n)."""


class PassError(WirError):
    """A pass or a pipeline text is wrong, or a pass broke the program (WIR8nn)."""


class PluginError(WirError):
    """An entry point is missing, ambiguous or broken (WIR90n)."""


class NotSupportedError(WirError, NotImplementedError):
    """A target cannot do what an op asks for (WIR91n): names the op, the place and the way out."""


class ExecutionError(WirError, RuntimeError):
    """A program met a fault while it ran: a failed assertion, a bad launch, wrong arguments (WIR92n, WIR93n)."""


class ArgumentError(ExecutionError, TypeError):
    """A program is called with an argument too few, too many, or twice (WIR926)."""


class TensorCheckError(ExecutionError, AssertionError):
    """A tensor has another layout than promised (WIR921), or holds a NaN or an infinity (WIR922): what Inductor's own code
    asserts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One verifier finding: `code` (WIR0nn, for signatures WIR1nn), the check's name, and the place in the program."""

    code: str
    check: str
    message: str
    function: str = ""
    op_index: int = -1
    context: str = ""
    """The op in printed form inside its surroundings, with a marker under it; empty for program-level findings."""
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
    """A program broke at least one rule; `diagnostics` holds all findings, the first gives the code."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        first = diagnostics[0]
        more = f"\n({len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        super().__init__(first.code, str(first) + more)

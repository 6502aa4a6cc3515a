"""Collects the findings of checks and renders them as diagnostics with an excerpt of the program."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.errors import Diagnostic
from wrapper_ir.verifier.rules import RULES

_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule and its place; `position` is the index of the op, -1 for the function or the
    program."""

    code: str
    message: str
    function: ir.Function | None = None
    position: int = -1


class Findings:
    """All findings of one verification, at most `_LIMIT`, without duplicates."""

    def __init__(self, program: ir.Program) -> None:
        self._program = program
        self._findings: dict[tuple[str, str, int, str], Finding] = {}

    def __len__(self) -> int:
        return len(self._findings)

    def add(self, code: str, message: str, function: ir.Function | None = None, position: int = -1) -> None:
        """Adds a finding."""
        if len(self._findings) < _LIMIT:
            name = "" if function is None else function.name
            self._findings.setdefault(
                (name, code, position, message), Finding(code, message, function, position)
            )

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The findings in order of their discovery, each with an excerpt around the op."""
        return tuple(self._render(f) for f in self._findings.values())

    def _render(self, finding: Finding) -> Diagnostic:
        function, position = finding.function, finding.position
        context = source = ""
        if function is not None and 0 <= position < len(function.body):
            context = _excerpt(function, position, self._program)
            source = _source(function, position)
        return Diagnostic(
            code=finding.code,
            check=RULES[finding.code].check,
            message=finding.message,
            function="" if function is None else function.name,
            op_index=position,
            context=context,
            source=source,
        )


def _excerpt(function: ir.Function, position: int, program: ir.Program) -> str:
    # imported here because only invalid programs need the printer
    from wrapper_ir.text import print_excerpt

    try:
        return print_excerpt(function, position, program)
    except Exception as error:  # an invalid op may contain any object, and must still be reported
        return f"(cannot be printed: {type(error).__name__}: {error})"


def _source(function: ir.Function, position: int) -> str:
    try:
        prov = function.body[position].prov
        return ", ".join((*prov.nodes, *prov.ops, *prov.locations))
    except (AttributeError, TypeError):  # the op may be any object
        return ""

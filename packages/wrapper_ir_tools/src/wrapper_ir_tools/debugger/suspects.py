"""Selects the differences that matter: those that reach another value, or a result."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir_tools.debugger.compare import Mismatch
from wrapper_ir_tools.debugger.computed_values import computed_values
from wrapper_ir_tools.debugger.samples import Sample
from wrapper_ir_tools.debugger.subject import Subject


class _Agreement(enum.Enum):
    """The verdict on a value that agrees."""

    AGREES = "agrees"


AGREES = _Agreement.AGREES
Verdict = _Agreement | Mismatch | None
"""None: no reference exists for the value."""


@dataclass
class _Suspect:
    mismatch: Mismatch
    function: ir.Function
    roots: set[ir.Value] = field(default_factory=set)
    """Storages of the value, or of values computed from it that could not be compared."""


class Suspects:
    """Values that differ, until an op that reads one shows if that matters."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._suspects: list[_Suspect] = []

    def add(self, sample: Sample, verdicts: Sequence[Verdict]) -> Mismatch | None:
        """Adds the values of one op; returns the first suspect if they confirm it."""
        function = sample.function
        assert function is not None
        read, writes = self._roots(function, sample.position)
        wrong = [v for v in verdicts if isinstance(v, Mismatch)]
        for suspect in list(self._suspects):
            if suspect.function is not function:
                continue
            if suspect.roots & read:
                if wrong:
                    return suspect.mismatch
                if any(v is AGREES for v in verdicts):
                    self._suspects.remove(suspect)
                else:
                    suspect.roots |= writes
            else:
                suspect.roots -= writes
        values = {f"%{v.name}": v for v in ir.definitions(function)} if wrong else {}
        for mismatch in wrong:
            value = values.get(mismatch.first.name)
            roots = set() if value is None else set(self._root(function, value))
            self._suspects.append(_Suspect(mismatch, function, roots))
        return None

    def at_end(self) -> Mismatch | None:
        """The first suspect that a function returns."""
        for suspect in self._suspects:
            returned = {
                r for v in ir.operands(suspect.function.body[-1]) for r in self._root(suspect.function, v)
            }
            if suspect.roots & returned:
                return suspect.mismatch
        return None

    def _roots(self, function: ir.Function, position: int) -> tuple[set[ir.Value], set[ir.Value]]:
        reads = self._subject.analyses.aliasing(function).effects[position].reads
        read = {r for v in reads for r in self._root(function, v)}
        return read, {r for v in self._written(function, position) for r in self._root(function, v)}

    def _written(self, function: ir.Function, position: int) -> tuple[ir.Value, ...]:
        return computed_values(function, position, self._subject.analyses)

    def _root(self, function: ir.Function, value: ir.Value) -> tuple[ir.Value, ...]:
        return self._subject.analyses.aliasing(function).roots.get(value, NO_ROOTS)

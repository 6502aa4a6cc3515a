"""A model's own values, against which parts of a program are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wrapper_ir.errors import DebugError
from wrapper_ir.plugins.eager import EagerRun, EagerValue
from wrapper_ir_tools.debugger.compare import Mismatch
from wrapper_ir_tools.debugger.eager import compare_with_eager
from wrapper_ir_tools.debugger.subject import Subject
from wrapper_ir_tools.debugger.tolerances import Tolerance


class _Recorded:
    """A run whose values are computed once, and held."""

    def __init__(self, run: EagerRun) -> None:
        self._run = run
        self._values: list[EagerValue] | None = None

    @property
    def constants(self) -> Mapping[str, Any]:  # Any: the model's tensors
        return self._run.constants

    def values(self) -> Iterator[EagerValue]:
        if self._values is None:
            self._values = list(self._run.values())
        return iter(self._values)


class EagerReference:
    """The values of a model's nodes, and the value of the program that differs first. The model runs once.

    Raises DebugError WIR962 where the program agrees with the model.
    """

    def __init__(self, subject: Subject, eager: EagerRun, tolerance: Tolerance | None = None) -> None:
        self._eager = _Recorded(eager)
        self._tolerance = tolerance
        found = compare_with_eager(subject, self._eager, tolerance)
        if found.failure is not None:
            raise found.failure
        if found.mismatch is None:
            raise DebugError(
                "WIR962",
                f"the program does not fail: {found.matched} values agree with the model's nodes",
                hint="where a constant differs, `wir compare --with eager` names it",
            )
        self.text = f"the value {found.mismatch.first.name}"

    def mismatch(self, subject: Subject) -> Mismatch | None:
        """How that value differs in a part of the program; None where it does not, or another one does before it."""
        found = compare_with_eager(subject, self._eager, self._tolerance).mismatch
        return None if found is None or f"the value {found.first.name}" != self.text else found

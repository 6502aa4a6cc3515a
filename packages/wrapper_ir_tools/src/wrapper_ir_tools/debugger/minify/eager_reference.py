"""A model's values, the reference for parts of a program."""

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
    """A run whose values are computed once and cached."""

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
    """The values of a model's nodes, and the first value of the program that differs. The model runs once.

    Raises DebugError WIR962 if the program agrees with the model.
    """

    def __init__(self, subject: Subject, eager: EagerRun, tolerance: Tolerance | None = None) -> None:
        self._eager = _Recorded(eager)
        self._tolerance = tolerance
        comparison = compare_with_eager(subject, self._eager, tolerance)
        if comparison.failure is not None:
            raise comparison.failure
        if comparison.mismatch is None:
            raise DebugError(
                "WIR962",
                f"the program does not fail: {comparison.matched} values agree with the model's nodes",
                hint="where a constant differs, `wir compare --with eager` names it",
            )
        self.text = f"the value {comparison.mismatch.first.name}"

    def mismatch(self, subject: Subject) -> Mismatch | None:
        """The difference of that value in a part of the program.

        Returns None if it agrees, or if another value differs before it.
        """
        mismatch = compare_with_eager(subject, self._eager, self._tolerance).mismatch
        return None if mismatch is None or f"the value {mismatch.first.name}" != self.text else mismatch

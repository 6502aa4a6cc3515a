"""A run as events: each op with what it computed, right after it has run."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.ir.ops import Define, Op
from wrapper_ir.ir.program import Function
from wrapper_ir.ir.values import Value
from wrapper_ir_runtime.interp import Step
from wrapper_ir_tools.debugger.products import products

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Generic[T]):
    """An op that has run. `values` are what it computed, still the run's own tensors: they change when it goes on."""

    step: Step[T]
    values: Mapping[Value, Any]  # Any: tensors and numbers
    symbols: Mapping[str, Any]
    """Symbols that it defined."""

    @property
    def function(self) -> Function:
        """The function that it is in."""
        return self.step.function

    @property
    def position(self) -> int:
        """Its position in the body."""
        return self.step.position

    @property
    def op(self) -> Op:
        """The op."""
        return self.step.op


# Any: results of the run
def events(run: Generator[Step[T], None, tuple[Any, ...]], analyses: Analyses) -> Iterator[Event[T]]:
    """The events of a run, in the order in which ops end: an op that calls functions comes after their ops. Returns of
    functions are not events of their own."""
    running: list[Step[T]] = []
    for step in run:
        while running and running[-1].depth > step.depth:
            running.pop()  # a return, which has handed over to its caller
        if running and running[-1].depth == step.depth:
            last = running.pop()
            if last.frame is step.frame:
                yield _event(last, analyses)
        running.append(step)


def _event(step: Step[T], analyses: Analyses) -> Event[T]:
    held = step.frame
    found = {}
    for value in products(step.function, step.position, analyses):
        known = held.values.get(value, held)
        known = held.session.constants.get(value, held) if known is held else known
        if known is not held:
            found[value] = known
    symbols = {step.op.symbol: step.symbols[step.op.symbol]} if isinstance(step.op, Define) else {}
    return Event(step=step, values=found, symbols=symbols)

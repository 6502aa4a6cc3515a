"""A run as events: each op with the values that it computed."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_runtime.interp import Step
from wrapper_ir_tools.debugger.computed_values import computed_values

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Generic[T]):
    """An executed op. `values` are the values that it computed, not copied: they change when the run
    continues.
    """

    step: Step[T]
    values: Mapping[ir.Value, Any]  # Any: tensors and numbers
    symbols: Mapping[str, Any]
    """Symbols that the op defined."""

    @property
    def function(self) -> ir.Function:
        """The function that contains the op."""
        return self.step.function

    @property
    def position(self) -> int:
        """Position of the op in the body."""
        return self.step.position

    @property
    def op(self) -> ir.Op:
        """The executed op."""
        return self.step.op


# Any: results of the run
def events(run: Generator[Step[T], None, tuple[Any, ...]], analyses: Analyses) -> Iterator[Event[T]]:
    """Yields the events of a run in the order in which ops end: a call comes after the ops of its callee.

    Returns of functions are not events.
    """
    running: list[Step[T]] = []
    for step in run:
        while running and running[-1].depth > step.depth:
            # a return: control is back in the caller
            running.pop()
        if running and running[-1].depth == step.depth:
            last = running.pop()
            if last.frame is step.frame:
                yield _event(last, analyses)
        running.append(step)


def _event(step: Step[T], analyses: Analyses) -> Event[T]:
    frame = step.frame
    values = {}
    for value in computed_values(step.function, step.position, analyses):
        data = frame.values.get(value, frame)
        data = frame.session.constants.get(value, frame) if data is frame else data
        if data is not frame:
            values[value] = data
    symbols = {step.op.symbol: step.symbols[step.op.symbol]} if isinstance(step.op, ir.Define) else {}
    return Event(step=step, values=values, symbols=symbols)

"""A bounded number of states of a run, spread over its ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wrapper_ir import ir
from wrapper_ir_runtime.interp import Step
from wrapper_ir_tools.debugger.subject import Kept, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLimits:
    """Keeps at most `count` states with a total of `nbytes` bytes; the first is always kept."""

    count: int = 8
    nbytes: int = 2 * 2**30


def can_keep(step: Step[Any]) -> bool:
    """True if a state can be kept before this op: in `main`, without a live nested result of an operator."""
    return step.depth == 0 and not any(ir.is_results(v) for v in step.values)


class KeptStates:
    """States by position. At a limit, every second state is dropped and the distance between new ones
    doubles.
    """

    def __init__(self, subject: Subject, limits: StateLimits) -> None:
        self._subject = subject
        self._limits = limits
        self._distance = 1
        self._last = -1
        self._states: dict[int, Kept] = {}

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions of the kept states, in order."""
        return tuple(sorted(self._states))

    def offer(self, step: Step[Any]) -> Kept | None:
        """Keeps and returns the state before an op if the next one is due; otherwise returns None."""
        due = self._last < 0 or step.position >= self._last + self._distance
        if not due or not can_keep(step):
            return None
        state = self._subject.keep(step)
        self._states[step.position] = state
        self._last = step.position
        while len(self._states) > 1 and self._too_many():
            self._thin()
        return state

    def _too_many(self) -> bool:
        nbytes = sum(k.state.nbytes for k in self._states.values())
        return len(self._states) > self._limits.count or nbytes > self._limits.nbytes

    def _thin(self) -> None:
        for position in self.positions[1::2]:
            del self._states[position]
        self._distance *= 2

    def before(self, position: int) -> Kept | None:
        """The last state at or before a position of `main`, or None."""
        positions = [p for p in self._states if p <= position]
        return self._states[max(positions)] if positions else None

"""A bounded number of states of a run, spread over its ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wrapper_ir.ir.types import TupleType
from wrapper_ir_runtime.interp import Step
from wrapper_ir_tools.debugger.subject import Kept, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLimits:
    """At most `count` states of together `nbytes` bytes are kept; the first is always kept."""

    count: int = 8
    nbytes: int = 2 * 2**30


def can_keep(step: Step[Any]) -> bool:
    """Whether a state can be kept before this op: in `main`, where no nested result of an operator is live."""
    return step.depth == 0 and not any(isinstance(v.type, TupleType) for v in step.values)


class KeptStates:
    """States by position. When there are too many, every second one goes, and the distance between new ones doubles."""

    def __init__(self, subject: Subject, limits: StateLimits) -> None:
        self._subject = subject
        self._limits = limits
        self._distance = 1
        self._last = -1
        self._states: dict[int, Kept] = {}

    @property
    def positions(self) -> tuple[int, ...]:
        """Where states are kept, in order."""
        return tuple(sorted(self._states))

    def offer(self, step: Step[Any]) -> Kept | None:
        """Keeps the state before an op where it is time for one, and gives it."""
        due = self._last < 0 or step.position >= self._last + self._distance
        if not due or not can_keep(step):
            return None
        kept = self._subject.keep(step)
        self._states[step.position] = kept
        self._last = step.position
        while len(self._states) > 1 and self._too_many():
            self._thin()
        return kept

    def _too_many(self) -> bool:
        nbytes = sum(k.state.nbytes for k in self._states.values())
        return len(self._states) > self._limits.count or nbytes > self._limits.nbytes

    def _thin(self) -> None:
        for position in self.positions[1::2]:
            del self._states[position]
        self._distance *= 2

    def before(self, position: int) -> Kept | None:
        """The last state at or before a position of `main`; None where there is none."""
        found = [p for p in self._states if p <= position]
        return self._states[max(found)] if found else None

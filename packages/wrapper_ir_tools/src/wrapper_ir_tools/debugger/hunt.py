"""Finds the op that computes the first bad value, a NaN or an infinity, without checking every op.

One run keeps a few states and checks the values of each. The run is then repeated from the last good state to
half way before the first bad one, and checked there, until one op remains. If that op calls functions, each
of their ops is checked. A bad value that another op overwrites between two checks is seen with `every_op`
only.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wrapper_ir import ir
from wrapper_ir_runtime.interp import Step
from wrapper_ir_tools.debugger.computed_values import computed_at, computing_position
from wrapper_ir_tools.debugger.contents import content_of, is_bad
from wrapper_ir_tools.debugger.events import Event, events
from wrapper_ir_tools.debugger.kept_states import KeptStates, StateLimits, can_keep
from wrapper_ir_tools.debugger.subject import Kept, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntOptions:
    """Options of a hunt.

    `nan_only` accepts infinities, which masks use. `ignore` has globs of names of values to skip. `every_op`
    checks after each op instead of bisecting. `limits` bounds the kept states.
    """

    nan_only: bool = False
    ignore: Sequence[str] = ()
    every_op: bool = False
    limits: StateLimits = field(default_factory=StateLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """The first bad values: of inputs and constants (`function` is None), or computed by an op."""

    names: tuple[str, ...]
    texts: tuple[str, ...]
    """One line of content for each value."""
    function: ir.Function | None = None
    position: int = -1
    operands: tuple[str, ...] = ()
    """One line for each operand of the op."""
    runs: int = 1
    """Number of times that a part of the program was run."""


def hunt(subject: Subject, options: HuntOptions | None = None) -> Bad | None:
    """Returns the first bad value, or None.

    Unwritten memory is zero during a hunt only if the subject's interpreter poisons with 0. Raises the errors
    of the interpreter.
    """
    return _Hunt(subject, options or HuntOptions()).find()


class _Hunt:
    def __init__(self, subject: Subject, options: HuntOptions) -> None:
        self.subject = subject
        self.options = options
        self.main = subject.program.main
        self.computed = computed_at(self.main, subject.analyses)
        self.state = tuple(c.value for c in subject.program.constants if c.mutable)
        self.runs = 1
        self.failure: Exception | None = None
        """The error that ended the run."""

    def find(self) -> Bad | None:
        """See `hunt`."""
        first = self._bad_inputs()
        if first is not None:
            return first
        if self.options.every_op:
            return self._first_event(None, len(self.main.body))
        good, bad = self._coarse()
        if bad is None:
            return None
        finding = self._bisect(good, bad)
        if finding is None and self.failure is not None:
            raise self.failure
        return finding

    # --- bad values

    def _is_bad(self, value: ir.Value, data: Any) -> bool:
        if any(fnmatch.fnmatchcase(value.name, pattern) for pattern in self.options.ignore):
            return False
        return is_bad(value, data, self.subject.machine, nan_only=self.options.nan_only)

    def _bad_inputs(self) -> Bad | None:
        run = self.subject.run()
        step = next(run)
        values = {**self.subject.interpreter.constants, **step.values}
        bad = [(v, x) for v, x in values.items() if self._is_bad(v, x)]
        run.close()
        if not bad:
            return None
        return Bad(names=tuple(v.name for v, _ in bad), texts=tuple(self._text(v, x) for v, x in bad))

    def _text(self, value: ir.Value, data: Any) -> str:
        return f"%{value.name}: {content_of(value, data, self.subject.machine).short()}"

    def _state_is_bad(self, step: Step[Any]) -> bool:
        """True if a live value that `main` has computed before this op is bad."""
        constants = self.subject.interpreter.constants
        live = [(v, x) for v, x in step.values.items() if self.computed.get(v, step.position) < step.position]
        return any(self._is_bad(v, x) for v, x in (*live, *((v, constants[v]) for v in self.state)))

    # --- search

    def _coarse(self) -> tuple[Kept | None, int | None]:
        """The last good state, and the position before which the first bad one was seen (None: all states are
        good).
        """
        states = KeptStates(self.subject, self.options.limits)
        position = 0
        try:
            for step in self.subject.run():
                if step.depth:
                    continue
                position = step.position
                state = states.offer(step)
                at_end = position == len(self.main.body) - 1
                if (state or at_end) and self._state_is_bad(step):
                    return states.before(position - 1), position
        except Exception as error:
            self.failure = error
            return states.before(position), position
        return None, None

    def _bisect(self, good: Kept | None, bad: int) -> Bad | None:
        """Narrows a range: `good` is a state without bad values, `bad` a position whose state has one."""
        while good is not None and bad - good.state.position > 1:
            middle = self._check_at(good, (good.state.position + bad) // 2, bad)
            if middle is None:
                break
            state, position = middle
            good, bad = (state, bad) if state is not None else (good, position)
        return self._first_event(good, bad)

    def _check_at(self, good: Kept, target: int, bad: int) -> tuple[Kept | None, int] | None:
        """Checks the first state at or after `target` that can be kept, and keeps it if it is good.

        Returns None if there is no such position before `bad`.
        """
        self.runs += 1
        run = self.subject.run(good)
        for step in run:
            if step.depth or step.position < target or not can_keep(step):
                continue
            if step.position >= bad:
                break
            state = None if self._state_is_bad(step) else self.subject.keep(step)
            position = step.position
            run.close()
            return state, position
        run.close()
        return None

    def _first_event(self, good: Kept | None, bad: int) -> Bad | None:
        """Checks each op from a good state up to position `bad` of `main`, exclusive."""
        self.runs += 1
        for event in self._events(good, bad):
            wrong = [(v, x) for v, x in event.values.items() if self._is_bad(v, x)]
            if wrong:
                return self._report(event, wrong)
        return None

    def _events(self, good: Kept | None, bad: int) -> Iterator[Event[Any]]:
        for event in events(self.subject.run(good), self.subject.analyses):
            yield event
            if event.step.depth == 0 and event.position >= bad - 1:
                # the next op may fail because of its operands
                return

    def _report(self, event: Event[Any], wrong: Sequence[tuple[ir.Value, Any]]) -> Bad:
        names = {v.name for v, _ in wrong}
        inputs = [v for v in dict.fromkeys(ir.operands(event.op)) if v.name not in names]
        values = {**self.subject.interpreter.constants, **event.step.values}
        return Bad(
            names=tuple(v.name for v, _ in wrong),
            texts=tuple(self._text(v, x) for v, x in wrong),
            function=event.function,
            position=computing_position(event.function, event.position),
            operands=tuple(
                self._text(v, values[v])
                for v in inputs
                if v in values and self.subject.machine.is_tensor(values[v])
            ),
            runs=self.runs,
        )

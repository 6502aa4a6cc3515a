"""A run that stops, continues, and steps back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wrapper_ir import ir
from wrapper_ir.errors import DebugError
from wrapper_ir_runtime.interp import Step
from wrapper_ir_tools.debugger.breakpoints import Breakpoint
from wrapper_ir_tools.debugger.conditions import evaluate_condition
from wrapper_ir_tools.debugger.contents import Content, content_of
from wrapper_ir_tools.debugger.kept_states import KeptStates, StateLimits
from wrapper_ir_tools.debugger.subject import Run, Subject

# Any in this file: the machine's tensors and numbers
Change = Callable[[Step[Any]], None]
Until = Callable[[Step[Any]], bool]


@dataclass(slots=True)
class Watch:
    """A value whose content is checked after each op. `last` is its previous content, None if it had none."""

    value: ir.Value
    last: Content | None = None


class Controller:
    """A run of a subject, stopped at one op.

    `tick` counts the executed ops, including those of callees. `results` is set at the end, `failure` if an
    op failed. Changes are applied again when the run is repeated.
    """

    def __init__(self, subject: Subject, limits: StateLimits | None = None) -> None:
        self.subject = subject
        self.breakpoints: list[Breakpoint] = []
        self.watches: list[Watch] = []
        self.reason = ""
        self.stack: list[Step[Any]] = []
        """The op about to run in each activation, outermost first."""
        self.tick = -1
        self.results: tuple[Any, ...] | None = None
        self.failure: Exception | None = None
        self._limits = limits or StateLimits()
        self._changes: list[tuple[int, Change]] = []
        self._states = KeptStates(subject, self._limits)
        self._ticks: dict[int, int] = {}
        """By position of `main` where a state is kept, the tick."""
        self._run: Run = subject.run()
        self._advance()

    @property
    def step(self) -> Step[Any]:
        """The op about to run; raises DebugError WIR958 after the end."""
        if not self.stack:
            how = "failed" if self.failure is not None else "ended"
            raise DebugError(
                "WIR958", f"the program has {how}", hint="go back (`back`) or begin again (`restart`)"
            )
        return self.stack[-1]

    def _advance(self) -> bool:
        """Runs one op; returns False at the end of the run."""
        try:
            step = next(self._run)
        except StopIteration as done:
            self.results = done.value
            self.stack = []
            self.tick += 1
            return False
        # raised by the program
        except Exception as error:
            self.failure = error
            self.stack = []
            self.tick += 1
            return False
        self.tick += 1
        while self.stack and self.stack[-1].depth >= step.depth:
            self.stack.pop()
        self.stack.append(step)
        for tick, change in self._changes:
            if tick == self.tick:
                change(step)
        if step.depth == 0 and not self._changes and self._states.offer(step) is not None:
            self._ticks[step.position] = self.tick
        return True

    # --- forwards

    def go_on(self, until: Until | None = None) -> None:
        """Continues to a breakpoint, a watch, a true `until`, or the end. Sets `reason`."""
        self.reason = ""
        _ = self.step
        while self._advance():
            self.reason = self._why_here()
            if self.reason or (until is not None and until(self.step)):
                return
        self.reason = "the program has ended" if self.failure is None else "an op failed"

    def into(self) -> None:
        """Runs one op, or enters the function that it calls."""
        self.go_on(lambda step: True)

    def over(self) -> None:
        """Runs one op and everything that it calls."""
        depth = self.step.depth
        self.go_on(lambda step: step.depth <= depth)

    def out(self) -> None:
        """Runs to the end of the function."""
        depth = self.step.depth
        self.go_on(lambda step: step.depth < depth)

    def _why_here(self) -> str:
        changed = [w for w in self.watches if self._has_changed(w)]
        if changed:
            return ", ".join(f"%{w.value.name} has changed" for w in changed)
        step = self.step
        for point in self.breakpoints:
            if point.places is not None and (step.function.name, step.position) not in point.places:
                continue
            if point.condition is None or self._holds(point):
                point.hits += 1
                return f"breakpoint {point.number} ({point.text})"
        return ""

    def _holds(self, point: Breakpoint) -> bool:
        """True if the condition holds; a pure condition is false while one of its operands has no value."""
        assert point.condition is not None
        try:
            return bool(evaluate_condition(point.condition, self.step, self.subject.machine))
        except DebugError:
            if point.places is not None:
                raise
            return False

    def _has_changed(self, watch: Watch) -> bool:
        now = self.content(watch.value)
        before, watch.last = watch.last, now
        if now is None or before is None:
            return (now is None) is not (before is None)
        return now != before

    def content(self, value: ir.Value) -> Content | None:
        """Content of a value of the current function; None if it has none now."""
        if not self.stack:
            return None
        frame = self.stack[-1].frame
        data = frame.values.get(value, self.subject.interpreter.constants.get(value, frame))
        return None if data is frame else content_of(value, data, self.subject.machine)

    # --- backwards

    def back_to(self, tick: int) -> None:
        """Returns to an earlier op: runs again from the last kept state before it, or from the start."""
        target = max(tick, 0)
        candidates = [(t, p) for p, t in self._ticks.items() if t <= target and p in self._states.positions]
        first_change = min((t for t, _ in self._changes), default=target + 1)
        candidates = [(t, p) for t, p in candidates if t <= first_change]
        at, position = max(candidates, default=(0, 0))
        state = self._states.before(position) if candidates else None
        self._run.close()
        self._run = self.subject.run(state)
        self.stack, self.results, self.failure = [], None, None
        self.tick = at - 1
        while self.tick < target and self._advance():
            pass
        for watch in self.watches:
            watch.last = self.content(watch.value)
        self.reason = ""

    def change(self, change: Change) -> None:
        """Changes the run at this op, now and in every repetition up to here. Drops later changes."""
        self._changes = [(t, c) for t, c in self._changes if t <= self.tick]
        change(self.step)
        self._changes.append((self.tick, change))

    def restart(self) -> None:
        """Returns to the start and drops all changes."""
        self._changes = []
        self.back_to(0)

"""Orders tasks to lower their peak of memory.

It is a beam search over the sets of finished tasks, in windows around the peak, after the dynamic programming
of Serenity (Ahn et al., MLSys 2020).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_WINDOW = 256
"""Number of tasks that are ordered at once."""
_WIDTHS = 2, 32
"""Beam widths: number of sets of finished tasks of one size. The next width is used if the previous one finds
nothing.
"""


@dataclass(frozen=True, slots=True)
class Task:
    """A step that runs after `after` (earlier tasks, by index) and needs `inside` bytes meanwhile.

    It can write the first buffer of each pair in `over` over the second one, if it is the first user of the
    one and the last user of the other.
    """

    after: tuple[int, ...] = ()
    inside: int = 0
    over: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """`size` bytes in use from the first to the last task that uses them.

    They are in use before the first task with `from_start`, and after the last one with `to_end`.
    """

    size: int
    users: tuple[int, ...]
    from_start: bool = False
    to_end: bool = False


@dataclass(frozen=True, slots=True)
class OrderProblem:
    """Tasks in a valid order, and the buffers that they use."""

    tasks: tuple[Task, ...]
    buffers: tuple[SharedBuffer, ...]


def lower_peak(problem: OrderProblem, steps: int = 200_000) -> tuple[int, ...]:
    """Returns an order with a lower peak; the given one if none was found within the steps.

    Searches an order of the tasks around the peak in which none needs as much, and continues with the next
    peak. Nearly linear if windows are few; a step visits one possible next task.
    """
    order = list(range(len(problem.tasks)))
    uses = _uses(problem)
    budget = steps if order else 0
    while budget > 0:
        bytes_needed = _peaks(problem, order, uses)
        worst = max(range(len(bytes_needed)), key=bytes_needed.__getitem__)
        low = max(0, min(worst - _WINDOW // 2, len(order) - _WINDOW))
        window = _Window(problem, order[low : low + _WINDOW], uses, order[:low])
        # relative to the bytes in use before the window
        limit = bytes_needed[worst] - (bytes_needed[low] - window.step(0, 0)[0])
        new_order = None
        for width in _WIDTHS if window.least() < limit else ():
            new_order = new_order or window.search(limit, width, budget)
        budget -= window.taken
        if new_order is None:
            break
        order[low : low + _WINDOW] = new_order
    return tuple(order)


def _uses(problem: OrderProblem) -> list[list[int]]:
    """The buffers of each task."""
    by_task: list[list[int]] = [[] for _ in problem.tasks]
    for at, buffer in enumerate(problem.buffers):
        for user in buffer.users:
            by_task[user].append(at)
    return by_task


def peaks(problem: OrderProblem, order: Sequence[int]) -> list[int]:
    """Bytes needed while each task runs, in this order.

    Buffers that exist from the start are not counted; their end lowers the sum.
    """
    return _peaks(problem, order, _uses(problem))


def _peaks(problem: OrderProblem, order: Sequence[int], uses: list[list[int]]) -> list[int]:
    counts = [len(b.users) for b in problem.buffers]
    totals, now = [], 0
    for i in order:
        buffers = problem.buffers
        begun = {b for b in uses[i] if counts[b] == len(buffers[b].users) and not buffers[b].from_start}
        for b in uses[i]:
            counts[b] -= 1
        ended = {b for b in uses[i] if not counts[b] and not buffers[b].to_end}
        gain = sum(buffers[b].size for b in begun)
        totals.append(now + max(gain, problem.tasks[i].inside) - _saved(problem, i, begun, ended))
        now += gain - sum(buffers[b].size for b in ended)
    return totals


def _saved(problem: OrderProblem, task: int, begun: set[int], ended: set[int]) -> int:
    """Bytes that a task saves by writing over buffers."""
    pairs = [(new, old) for new, old in problem.tasks[task].over if new in begun and old in ended]
    sides = zip(*pairs, strict=True)
    return min((sum(problem.buffers[b].size for b in set(side)) for side in sides), default=0)


class _State(NamedTuple):
    """Finished tasks, as bits, with their peak, the bytes in use after them, and their order."""

    peak: int
    now: int
    finished: int
    ready: int
    last: int
    before: _State | None


class _Window:
    """Consecutive tasks with new numbers. Tasks are bits, so that the bytes in use follow from a set."""

    def __init__(
        self, problem: OrderProblem, tasks: Sequence[int], uses: list[list[int]], earlier: Sequence[int] = ()
    ) -> None:
        self.problem, self.tasks = problem, tasks
        number = {task: at for at, task in enumerate(tasks)}
        finished = frozenset(earlier)
        self.taken = 0
        self.after = [sum(1 << number[a] for a in set(problem.tasks[t].after) if a in number) for t in tasks]
        self.then: list[list[int]] = [[] for _ in tasks]
        for at, mask in enumerate(self.after):
            for before in _bits(mask):
                self.then[before].append(at)
        self.uses: list[list[tuple[int, int, int, bool, bool]]] = [[] for _ in tasks]
        """Of each task: buffer, size, users as bits, whether it is there before, whether it stays."""
        buffers: dict[int, tuple[int, int, int, bool, bool]] = {}
        for at, task in enumerate(tasks):
            for b in uses[task]:
                if b not in buffers:
                    buffer = problem.buffers[b]
                    users = sum(1 << number[u] for u in buffer.users if u in number)
                    outside = [u for u in buffer.users if u not in number]
                    from_start = buffer.from_start or any(u in finished for u in outside)
                    to_end = buffer.to_end or any(u not in finished for u in outside)
                    buffers[b] = b, buffer.size, users, from_start, to_end
                self.uses[at].append(buffers[b])

    def step(self, mask: int, task: int) -> tuple[int, int]:
        """Returns (bytes needed in addition, change of bytes in use) of a task after finished ones."""
        bit = 1 << task
        gain = loss = 0
        begun, ended = [], []
        for b, size, users, from_start, to_end in self.uses[task]:
            if not from_start and not users & mask:
                gain += size
                begun.append(b)
            if not to_end and users & ~mask == bit:
                loss += size
                ended.append(b)
        its = self.problem.tasks[self.tasks[task]]
        during = max(gain, its.inside)
        if its.over and begun and ended:
            during -= _saved(self.problem, self.tasks[task], set(begun), set(ended))
        return during, gain - loss

    def least(self) -> int:
        """Returns a lower bound for any order: the buffers of one task, relative to the bytes before the
        window.
        """
        initial = sum({b: size for uses in self.uses for b, size, _, initial, _ in uses if initial}.values())
        largest = 0
        for at, uses in enumerate(self.uses):
            own = sum(size for _, size, _, initial, _ in uses if initial)
            new = sum(size for _, size, _, initial, _ in uses if not initial)
            its = self.problem.tasks[self.tasks[at]]
            saved = _saved(self.problem, self.tasks[at], *[{b for b, *_ in uses}] * 2) if its.over else 0
            largest = max(largest, own + new - saved - initial)
        return largest

    def search(self, limit: int, width: int, steps: int) -> list[int] | None:
        """Returns the tasks in an order that needs less than `limit`, relative to the bytes before; None:
        none was found.
        """
        ready = sum(1 << at for at, mask in enumerate(self.after) if not mask)
        states = [_State(self.least(), 0, 0, ready, -1, None)]
        for _ in self.tasks:
            best: dict[int, _State] = {}
            for state in states:
                for new in self._next(state, limit):
                    other = best.get(new.finished)
                    if other is None or (new.peak, new.now) < (other.peak, other.now):
                        best[new.finished] = new
            if not best or self.taken > steps:
                return None
            states = sorted(best.values(), key=lambda s: (s.peak, s.now))[:width]
        return [self.tasks[at] for at in _path(states[0])]

    def _next(self, state: _State, limit: int) -> list[_State]:
        """Returns the states with one more task.

        A task that increases neither the peak nor the bytes in use runs at once: it could not need less
        later, and no order of the rest needs less without it.
        """
        states: list[_State] = []
        for task in _bits(state.ready):
            self.taken += 1
            during, change = self.step(state.finished, task)
            demand = state.now + during
            if demand >= limit:
                continue
            mask = state.finished | 1 << task
            ready = state.ready & ~(1 << task)
            for then in self.then[task]:
                if not self.after[then] & ~mask:
                    ready |= 1 << then
            new = _State(max(state.peak, demand), state.now + change, mask, ready, task, state)
            if change <= 0 and demand <= state.peak:
                return [new]
            states.append(new)
        return states


def _bits(mask: int) -> Iterator[int]:
    """The bits that are set, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _path(state: _State | None) -> list[int]:
    order: list[int] = []
    while state is not None and state.before is not None:
        order.append(state.last)
        state = state.before
    return order[::-1]

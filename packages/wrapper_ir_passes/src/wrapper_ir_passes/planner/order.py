"""An order of tasks that needs less memory at its worst moment.

Beam search over the sets of tasks that are done, after the dynamic programming of Serenity (Ahn et al., MLSys 2020), in windows
around the worst moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_WINDOW = 256
"""So many tasks are put in order at once."""
_WIDTHS = 2, 32
"""So many sets of done tasks of one size are kept; the next width where the one before finds nothing."""


@dataclass(frozen=True, slots=True)
class Task:
    """A step that runs once `after` have run (tasks before it, by index), needs `inside` bytes of its own meanwhile, and can write
    the first buffer of each of `over` over the second one, where it is the first to use the one and the last to use the other."""

    after: tuple[int, ...] = ()
    inside: int = 0
    over: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """`size` bytes that are held from the first to the last of the tasks that use it; `given`: from before, `kept`: for ever."""

    size: int
    users: tuple[int, ...]
    given: bool = False
    kept: bool = False


@dataclass(frozen=True, slots=True)
class OrderProblem:
    """Tasks in an order that is allowed, and what they use."""

    tasks: tuple[Task, ...]
    buffers: tuple[SharedBuffer, ...]


def lower_peak(problem: OrderProblem, steps: int = 200_000) -> tuple[int, ...]:
    """An order in which the worst moment needs less; the given one where none was found within the steps.

    Takes the tasks around the worst moment, looks for an order of these in which none needs as much, and goes on with the next
    worst moment. Near linear where windows are few; a step looks at one task that could be next.
    """
    order = list(range(len(problem.tasks)))
    uses = _uses(problem)
    left = steps if order else 0
    while left > 0:
        needed = _peaks(problem, order, uses)
        worst = max(range(len(needed)), key=needed.__getitem__)
        low = max(0, min(worst - _WINDOW // 2, len(order) - _WINDOW))
        window = _Window(problem, order[low : low + _WINDOW], uses, order[:low])
        limit = needed[worst] - (needed[low] - window.step(0, 0)[0])  # above what is held before the window
        found = None
        for width in _WIDTHS if window.least() < limit else ():
            found = found or window.search(limit, width, left)
        left -= window.taken
        if found is None:
            break
        order[low : low + _WINDOW] = found
    return tuple(order)


def _uses(problem: OrderProblem) -> list[list[int]]:
    """The buffers of each task."""
    found: list[list[int]] = [[] for _ in problem.tasks]
    for at, buffer in enumerate(problem.buffers):
        for user in buffer.users:
            found[user].append(at)
    return found


def peaks(problem: OrderProblem, order: Sequence[int]) -> list[int]:
    """Bytes needed while each task runs, in this order; those that are given are not counted, and lower it once they end."""
    return _peaks(problem, order, _uses(problem))


def _peaks(problem: OrderProblem, order: Sequence[int], uses: list[list[int]]) -> list[int]:
    left = [len(b.users) for b in problem.buffers]
    found, now = [], 0
    for i in order:
        buffers = problem.buffers
        begun = {b for b in uses[i] if left[b] == len(buffers[b].users) and not buffers[b].given}
        for b in uses[i]:
            left[b] -= 1
        ended = {b for b in uses[i] if not left[b] and not buffers[b].kept}
        gain = sum(buffers[b].size for b in begun)
        found.append(now + max(gain, problem.tasks[i].inside) - _saved(problem, i, begun, ended))
        now += gain - sum(buffers[b].size for b in ended)
    return found


def _saved(problem: OrderProblem, task: int, begun: set[int], ended: set[int]) -> int:
    """Bytes that a task needs less where it writes over buffers."""
    pairs = [(new, old) for new, old in problem.tasks[task].over if new in begun and old in ended]
    sides = zip(*pairs, strict=True)
    return min((sum(problem.buffers[b].size for b in set(side)) for side in sides), default=0)


class _State(NamedTuple):
    """Tasks that are done, as bits; what they needed at most, what is held after them, and how they were ordered."""

    peak: int
    now: int
    done: int
    ready: int
    last: int
    before: _State | None


class _Window:
    """Some tasks that follow each other, numbered anew. Bits stand for tasks, so that what is held follows from a set."""

    def __init__(
        self,
        problem: OrderProblem,
        tasks: Sequence[int],
        uses: list[list[int]],
        earlier: Sequence[int] = (),
    ) -> None:
        self.problem, self.tasks = problem, tasks
        number = {task: at for at, task in enumerate(tasks)}
        gone = frozenset(earlier)
        self.taken = 0
        self.after = [sum(1 << number[a] for a in set(problem.tasks[t].after) if a in number) for t in tasks]
        self.then: list[list[int]] = [[] for _ in tasks]
        for at, mask in enumerate(self.after):
            for before in _bits(mask):
                self.then[before].append(at)
        self.uses: list[list[tuple[int, int, int, bool, bool]]] = [[] for _ in tasks]
        """Of each task: buffer, size, users as bits, whether it is there before, whether it stays."""
        known: dict[int, tuple[int, int, int, bool, bool]] = {}
        for at, task in enumerate(tasks):
            for b in uses[task]:
                if b not in known:
                    buffer = problem.buffers[b]
                    users = sum(1 << number[u] for u in buffer.users if u in number)
                    outside = [u for u in buffer.users if u not in number]
                    given = buffer.given or any(u in gone for u in outside)
                    kept = buffer.kept or any(u not in gone for u in outside)
                    known[b] = b, buffer.size, users, given, kept
                self.uses[at].append(known[b])

    def step(self, done: int, task: int) -> tuple[int, int]:
        """(bytes needed beyond what is held, change of what is held) of a task after those that are done."""
        bit = 1 << task
        gain = loss = 0
        begun, ended = [], []
        for b, size, users, given, kept in self.uses[task]:
            if not given and not users & done:
                gain += size
                begun.append(b)
            if not kept and users & ~done == bit:
                loss += size
                ended.append(b)
        its = self.problem.tasks[self.tasks[task]]
        during = max(gain, its.inside)
        if its.over and begun and ended:
            during -= _saved(self.problem, self.tasks[task], set(begun), set(ended))
        return during, gain - loss

    def least(self) -> int:
        """What is needed at least in any order: the buffers of one task, above what is there before the window."""
        given = sum({b: size for uses in self.uses for b, size, _, given, _ in uses if given}.values())
        found = 0
        for at, uses in enumerate(self.uses):
            own = sum(size for _, size, _, given, _ in uses if given)
            new = sum(size for _, size, _, given, _ in uses if not given)
            its = self.problem.tasks[self.tasks[at]]
            saved = _saved(self.problem, self.tasks[at], *[{b for b, *_ in uses}] * 2) if its.over else 0
            found = max(found, own + new - saved - given)
        return found

    def search(self, limit: int, width: int, steps: int) -> list[int] | None:
        """The tasks in an order that needs less than `limit` throughout, above what is held before; None: none was found."""
        ready = sum(1 << at for at, mask in enumerate(self.after) if not mask)
        states = [_State(self.least(), 0, 0, ready, -1, None)]
        for _ in self.tasks:
            found: dict[int, _State] = {}
            for state in states:
                for new in self._next(state, limit):
                    known = found.get(new.done)
                    if known is None or (new.peak, new.now) < (known.peak, known.now):
                        found[new.done] = new
            if not found or self.taken > steps:
                return None
            states = sorted(found.values(), key=lambda s: (s.peak, s.now))[:width]
        return [self.tasks[at] for at in _path(states[0])]

    def _next(self, state: _State, limit: int) -> list[_State]:
        """The states with one task more. A task that raises neither the peak nor what is held is done at once: it could only need as
        much later, and no other order of the rest needs less without it."""
        found: list[_State] = []
        for task in _bits(state.ready):
            self.taken += 1
            during, change = self.step(state.done, task)
            needed = state.now + during
            if needed >= limit:
                continue
            done = state.done | 1 << task
            ready = state.ready & ~(1 << task)
            for then in self.then[task]:
                if not self.after[then] & ~done:
                    ready |= 1 << then
            new = _State(max(state.peak, needed), state.now + change, done, ready, task, state)
            if change <= 0 and needed <= state.peak:
                return [new]
            found.append(new)
        return found


def _bits(mask: int) -> Iterator[int]:
    """The bits that are set, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _path(state: _State | None) -> list[int]:
    found: list[int] = []
    while state is not None and state.before is not None:
        found.append(state.last)
        state = state.before
    return found[::-1]

"""A device that records, whose memory is simulated: what recordings allocate and free lies in one arena, where a replay really writes
over what lies there, and bytes are counted.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from wrapper_ir.runtime import Span

__all__ = ["ArenaGraphs", "Array"]

_SEGMENT = 16
"""Cells that the arena grows by at least."""
_HEAP = 1 << 40
"""Where memory outside of the arena begins."""


class _Storage:
    """Cells from `begin` on. Its end gives them back, unless that has been done already."""

    def __init__(self, device: ArenaGraphs, begin: int, count: int) -> None:
        self.device = device
        self.span = (begin, begin + count)
        self.is_owner = True

    def give_back(self) -> None:
        if self.is_owner:
            self.is_owner = False
            self.device.free(self.span)

    def __del__(self) -> None:
        self.give_back()


class _Ending:
    """Lies where a recording's result does, whose memory ends with it."""

    def __init__(self, result: _Storage) -> None:
        self.span = result.span
        self._result = result

    def __del__(self) -> None:
        self._result.give_back()


@dataclass(slots=True, eq=False)
class Array:
    """A tensor: all cells of a storage."""

    storage: _Storage | _Ending

    @property
    def span(self) -> Span:
        """Where it lies."""
        return self.storage.span


Compute = Callable[..., list[int]]


@dataclass(slots=True)
class _Step:
    out: Span
    compute: Compute
    inputs: list[Span]


@dataclass
class ArenaGraphs:
    """See `wrapper_ir.runtime.GraphDevice`. `held` is how many cells are allocated outside of the arena, `peak` how many were at
    most, with those of the arena."""

    current: Hashable | None = 1
    recordings: int = 0
    replays: int = 0
    held: int = 0
    peak: int = 0
    fails: bool = False
    _cells: dict[int, int] = field(default_factory=dict)
    _segments: list[Span] = field(default_factory=list)
    _free: list[Span] = field(default_factory=list)
    _heap: int = _HEAP
    _steps: list[_Step] | None = None

    # --- what functions do

    def empty(self, count: int) -> Array:
        """Memory whose content is anything."""
        begin = self._from_heap(count) if self._steps is None else self._from_arena(count)
        self.peak = max(self.peak, self.held + self.arena)
        return Array(_Storage(self, begin, count))

    def run(self, compute: Compute, out: Array, *inputs: Array) -> None:
        """Writes `out`, now or when it is replayed."""
        step = _Step(out.span, compute, [x.span for x in inputs])
        if self._steps is not None:
            self._steps.append(step)
        else:
            self._do(step)

    def array(self, values: Sequence[int]) -> Array:
        """One with content."""
        made = self.empty(len(values))
        self.write(made, values)
        return made

    def write(self, array: Array, values: Sequence[int]) -> None:
        """Gives it this content."""
        self._write(array.span, values)

    def read(self, array: Array) -> list[int]:
        """Its content."""
        return self._read(array.span)

    @property
    def arena(self) -> int:
        """The cells of the arena."""
        return sum(end - begin for begin, end in self._segments)

    @property
    def unused(self) -> int:
        """The cells of the arena that are free."""
        return sum(end - begin for begin, end in self._free)

    def free(self, span: Span) -> None:
        """Ends memory."""
        if span[0] >= _HEAP:
            self.held -= span[1] - span[0]
        else:
            insort(self._free, span)
            self._free = _merged(self._free)

    def _do(self, step: _Step) -> None:
        self._write(step.out, step.compute(*map(self._read, step.inputs)))

    def _read(self, span: Span) -> list[int]:
        return [self._cells.get(at, -1) for at in range(*span)]

    def _write(self, span: Span, values: Sequence[int]) -> None:
        self._cells.update(zip(range(*span), values, strict=True))

    def _from_heap(self, count: int) -> int:
        begin = self._heap
        self._heap += count + 1
        self.held += count
        return begin

    def _from_arena(self, count: int) -> int:
        at = next((i for i, (begin, end) in enumerate(self._free) if end - begin >= count), None)
        if at is None:
            begin = self._segments[-1][1] + 1 if self._segments else 1
            segment = (begin, begin + max(count, _SEGMENT))
            self._segments.append(segment)
            insort(self._free, segment)
            at = self._free.index(segment)
        begin, end = self._free.pop(at)
        if begin + count < end:
            insort(self._free, (begin + count, end))
        return begin

    # --- of a device

    def stream(self) -> Hashable | None:
        return self.current

    def follow(self, before: Hashable) -> None:
        pass

    def addresses(self, args: Sequence[Array], positions: Sequence[int]) -> list[int | None]:
        return [x.span[0] if i in positions else None for i, x in enumerate(args)]

    def checker(self, args: Sequence[Array], positions: Sequence[int]) -> Callable[[list[Array]], bool]:
        there = self.addresses(args, positions)
        return lambda args: self.addresses(args, positions) == there

    def is_here(self, args: Sequence[Array], positions: Sequence[int]) -> bool:
        return True

    def buffer(self, arg: Array) -> Array:
        count = arg.span[1] - arg.span[0]
        return Array(_Storage(self, self._from_arena(count), count))

    def copy(self, targets: list[Array], sources: list[Array]) -> None:
        for target, source in zip(targets, sources, strict=True):
            self._write(target.span, self.read(source))

    def record(self, run: Callable[[], Sequence[Array]]) -> tuple[Callable[[], None], tuple[Array, ...]]:
        with self._recording() as steps:
            results = tuple(run())
            if self.fails:
                raise MemoryError("out of memory")
        self.recordings += 1
        return partial(self._replay, steps), results

    @contextmanager
    def _recording(self) -> Iterator[list[_Step]]:
        stream, self.current = self.current, None
        steps: list[_Step] = []
        self._steps = steps
        try:
            yield steps
        finally:
            self.current, self._steps = stream, None

    def _replay(self, steps: Sequence[_Step]) -> None:
        self.replays += 1
        for step in steps:
            self._do(step)

    def memory(self) -> Sequence[Span]:
        return [*self._segments]

    def spans(self, tensors: Sequence[Array]) -> Sequence[Span]:
        return [x.span for x in tensors]

    def release(self, tensor: Array, args: Sequence[Array]) -> list[Array]:
        assert isinstance(tensor.storage, _Storage)
        ending = _Ending(tensor.storage)
        return [Array(ending) for _ in args]

    def storages(self, results: Sequence[Array]) -> Sequence[_Storage | _Ending]:
        return [r.storage for r in results]

    def holders(self, storages: Sequence[_Storage]) -> Sequence[int]:
        return [sys.getrefcount(s) for s in storages]

    def giver(self, results: tuple[Array, ...], owned: Set[int]) -> Callable[[], tuple[Array, ...]]:
        def give() -> tuple[Array, ...]:
            return tuple(
                self.array(self.read(r)) if i in owned else Array(r.storage) for i, r in enumerate(results)
            )

        return give

    def wait(self) -> None:
        pass

    def is_exhausted(self, error: Exception) -> bool:
        return isinstance(error, MemoryError)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Free memory in order; what lies side by side in one segment is one piece. Segments have a gap between them."""
    found: list[Span] = []
    for begin, end in spans:
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found

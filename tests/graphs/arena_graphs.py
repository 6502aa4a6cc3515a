"""A device that captures graphs in simulated memory.

Memory of graphs is in one arena, where a replay really overwrites other values; other memory is in other
arenas. Cells are counted, including those of partly free segments.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from wrapper_ir_runtime import Span

_SEGMENT = 16
"""Cells that an arena grows by at least."""
_ADDRESSES = 1 << 40
"""Addresses of an arena."""


class Arena:
    """Memory in segments, each as large as its allocation or larger.

    Freed memory is reused: the smallest piece that fits, the first of those.
    """

    def __init__(self, number: int) -> None:
        self.segments: list[Span] = []
        self._free: list[Span] = []
        self._end = number * _ADDRESSES + 1

    @property
    def size(self) -> int:
        """Cells of all segments."""
        return sum(end - begin for begin, end in self.segments)

    @property
    def unused(self) -> int:
        """Those that are free."""
        return sum(end - begin for begin, end in self._free)

    def allocate(self, cells: int) -> int:
        """Allocates cells that no other value uses."""
        fits = [(end - begin, begin) for begin, end in self._free if end - begin >= cells]
        if not fits:
            begin, self._end = (
                self._end,
                self._end + max(cells, _SEGMENT) + 1,
            )  # a gap, so that segments stay apart
            self.segments.append((begin, self._end - 1))
            insort(self._free, self.segments[-1])
            fits = [(self._end - 1 - begin, begin)]
        size, begin = min(fits)
        self._free.remove((begin, begin + size))
        if cells < size:
            insort(self._free, (begin + cells, begin + size))
        return begin

    def free(self, span: Span) -> None:
        """Frees an allocation."""
        insort(self._free, span)
        self._free = _merged(self._free)

    def has(self, array: Array) -> bool:
        """Returns whether an array is in this arena."""
        return any(begin <= array.span[0] < end for begin, end in self.segments)

    def give_back(self) -> None:
        """Ends segments in which nothing is allocated."""
        gone = {*self.segments} & {*self._free}
        self.segments = [each for each in self.segments if each not in gone]
        self._free = [each for each in self._free if each not in gone]


class _Storage:
    """Cells of an arena. Its end frees them, once."""

    def __init__(self, device: ArenaGraphs, arena: Arena, cells: int) -> None:
        self.device = device
        self.arena = arena
        begin = arena.allocate(cells)
        self.span = (begin, begin + cells)
        self.is_owner = True

    def give_back(self) -> None:
        if self.is_owner:
            self.is_owner = False
            self.device.free(self.arena, self.span)

    def __del__(self) -> None:
        self.give_back()


class _Ending:
    """Shares memory with a graph's result, and ends with it."""

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
        """Returns its position."""
        return self.storage.span


Compute = Callable[..., list[int]]


@dataclass(slots=True)
class _Step:
    out: Span
    compute: Compute
    inputs: list[Span]


@dataclass
class ArenaGraphs:
    """See `wrapper_ir_runtime.GraphDevice`.

    `held` counts the cells allocated outside of the graphs' arena; `peak` is their maximum, including that
    arena. `reserved_peak` counts all cells of segments.
    """

    current: Hashable | None = 1
    cuda_graphs: int = 0
    replays: int = 0
    held: int = 0
    peak: int = 0
    reserved_peak: int = 0
    fails: bool = False
    is_elsewhere: bool = False
    """True if arguments are on another device."""
    general: Arena = field(init=False)
    graph_memory: Arena = field(init=False)
    _cells: dict[int, int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _warm_arenas: list[Arena] = field(default_factory=list)
    """Allocations of warm-ups."""
    _warm_arena: Arena | None = None
    """The one of them in which the next one allocates."""
    _allocating: Arena = field(init=False)
    _steps: list[_Step] | None = None

    def __post_init__(self) -> None:
        self.graph_memory, self.general = self._arena(), self._arena()
        self._allocating = self.general

    def _arena(self) -> Arena:
        return Arena(next(self._numbers))

    # --- what functions do

    def empty(self, cells: int) -> Array:
        """Memory whose content is anything."""
        made = self._allocate(self._allocating, cells)
        self.peak = max(self.peak, self.held + self.graph_memory.size)
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        return made

    def _allocate(self, arena: Arena, cells: int) -> Array:
        self.held += cells if arena is not self.graph_memory else 0
        return Array(_Storage(self, arena, cells))

    def run(self, compute: Compute, out: Array, *inputs: Array) -> None:
        """Writes `out`, now or when it is replayed."""
        step = _Step(out.span, compute, [x.span for x in inputs])
        if self._steps is not None:
            self._steps.append(step)
        else:
            self._do(step)

    def array(self, values: Sequence[int]) -> Array:
        """Returns an array with content."""
        made = self.empty(len(values))
        self.write(made, values)
        return made

    def write(self, array: Array, values: Sequence[int]) -> None:
        """Writes this content."""
        self._write(array.span, values)

    def read(self, array: Array) -> list[int]:
        """Its content."""
        return self._read(array.span)

    @property
    def reserved(self) -> int:
        """The cells of all segments."""
        return sum(each.size for each in (self.graph_memory, self.general, *self._warm_arenas))

    def free(self, arena: Arena, span: Span) -> None:
        """Ends memory."""
        self.held -= span[1] - span[0] if arena is not self.graph_memory else 0
        arena.free(span)

    def _do(self, step: _Step) -> None:
        self._write(step.out, step.compute(*map(self._read, step.inputs)))

    def _read(self, span: Span) -> list[int]:
        return [self._cells.get(at, -1) for at in range(*span)]

    def _write(self, span: Span, values: Sequence[int]) -> None:
        self._cells.update(zip(range(*span), values, strict=True))

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
        return not self.is_elsewhere

    def buffer(self, arg: Array) -> Array:
        return self._allocate(self.graph_memory, arg.span[1] - arg.span[0])

    def copy(self, targets: list[Array], sources: list[Array]) -> None:
        for target, source in zip(targets, sources, strict=True):
            self._write(target.span, self.read(source))

    def capture(self, run: Callable[[], Sequence[Array]]) -> tuple[Callable[[], None], tuple[Array, ...]]:
        self._warm_arena = None
        self.give_back()
        with self._capture() as steps:
            results = tuple(run())
            if self.fails:
                raise MemoryError("out of memory")
        self.cuda_graphs += 1
        return partial(self._replay, steps), results

    @contextmanager
    def _capture(self) -> Iterator[list[_Step]]:
        stream, self.current = self.current, None
        steps: list[_Step] = []
        self._steps = steps
        try:
            with self._from(self.graph_memory):
                yield steps
        finally:
            self.current, self._steps = stream, None

    @contextmanager
    def _from(self, arena: Arena) -> Iterator[None]:
        before, self._allocating = self._allocating, arena
        try:
            yield
        finally:
            self._allocating = before

    def warm_up(self, run: Callable[[], tuple[Array, ...]]) -> tuple[Array, ...]:
        if self._warm_arena is None:
            self.give_back()
            self._warm_arena = self._arena()
            self._warm_arenas.append(self._warm_arena)
        with self._from(self._warm_arena):
            return run()

    def give_back(self) -> None:
        """Releases segments without allocations, except those of graphs."""
        self.general.give_back()
        for each in self._warm_arenas:
            each.give_back()
        self._warm_arenas = [each for each in self._warm_arenas if each.segments or each is self._warm_arena]

    def _replay(self, steps: Sequence[_Step]) -> None:
        self.replays += 1
        for step in steps:
            self._do(step)

    def memory(self) -> Sequence[Span]:
        return [*self.graph_memory.segments]

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
    """Merges adjacent free pieces of one segment, in order. Segments have a gap between them."""
    found: list[Span] = []
    for begin, end in spans:
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found

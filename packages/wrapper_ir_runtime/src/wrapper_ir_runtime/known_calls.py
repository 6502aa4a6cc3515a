"""Argument uses of a captured function, and the state of its keys: addresses of earlier calls, and
graphs."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

from wrapper_ir_runtime.lent_results import LentResults, Overlap

T = TypeVar("T")
_STEADY = 3
"""Consecutive calls in which a static argument may move before it is copied instead."""
_MOVES = 32
"""Calls, consecutive or not, in which static arguments may move before they are copied instead."""
_WARM_UPS = 3
"""Calls with a key that may be warm-ups. If these led to no capture, later calls rarely do."""


@dataclass(frozen=True, slots=True)
class ArgumentUses:
    """Positions of a captured function's arguments.

    `tensors` are all tensors, `static` those at one address in most calls, and `written` those that the
    function writes. `given` are donated: the function ends their storages.
    """

    tensors: tuple[int, ...]
    static: frozenset[int]
    written: frozenset[int]
    given: frozenset[int]


@dataclass(slots=True)
class Replay(Generic[T]):
    """One graph and its arguments.

    `addresses` are those of the bound arguments (None for others), which `fits` compares. Arguments at the
    positions `copied` are copied to `buffers`. `write_backs` pairs a position with the buffer to copy back.

    `lent` are the results that a replay writes. `give` returns them to the caller, with copies at positions
    in `owned`. `overlaps` are results of other graphs in memory that a replay writes.
    """

    run: Callable[[], None]
    lent: LentResults[T]
    overlaps: list[Overlap[T]]
    addresses: list[int | None]
    fits: Callable[[list[T]], bool]
    copied: tuple[int, ...]
    buffers: list[T]
    write_backs: tuple[tuple[int, T], ...]
    give: Callable[[], tuple[T, ...]]
    owned: frozenset[int]


@dataclass(slots=True)
class Key(Generic[T]):
    """State of the calls with one key; see the table of `graph_replay`."""

    last_addresses: list[int | None]
    """Addresses of static arguments in the last call that was not a replay."""
    copied: frozenset[int] = frozenset()
    moves: int = 0
    """Consecutive calls in which a static argument had moved."""
    all_moves: int = 0
    last_use: int = 0
    replay: Replay[T] | None = None
    refused: bool = False
    warm_ups: int = 0
    """Calls that ran the function eagerly before a capture."""

    @property
    def may_warm_up(self) -> bool:
        """True if an eager call may precede a capture, rather than replace one."""
        return self.replay is None and not self.refused and self.warm_ups < _WARM_UPS

    def moved(self, here: list[int | None]) -> Set[int]:
        """Returns the arguments whose addresses in `here` differ from those of the last call or of the
        graph."""
        last = self.last_addresses if self.replay is None else self.replay.addresses
        return {i for i, at in enumerate(here) if at != last[i]}

    def is_steady(self, here: list[int | None], fixed: Set[int], lent: Set[int]) -> bool:
        """Returns whether a graph for these addresses is expected to be reusable.

        That is the case if static arguments have the addresses of the previous call. For a first graph,
        it is also enough that the moved ones are results of graphs (`lent`). Arguments that keep moving
        are copied from now on, and then count as steady, unless they are `fixed` or lent.
        """
        changed = {i for i in self.moved(here) if here[i] is not None}
        moved = changed - fixed - lent
        self.all_moves += bool(moved)
        is_steady = self.last_addresses == here or (self.replay is None and changed <= lent)
        self.last_addresses = here
        if is_steady and self.all_moves < _MOVES:
            return True
        self.moves += 1
        if self.moves < _STEADY or not moved:
            return is_steady
        self.copied |= moved
        self.last_addresses = [None if i in moved else at for i, at in enumerate(here)]
        return True

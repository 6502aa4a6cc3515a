"""What is known of the calls of a recorded function with one key: where arguments lay, and the recording."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any

from wrapper_ir_runtime.lent_results import LentResults, Overlap

# Any in this file: tensors of a library that this package does not know.
_STEADY = 3
"""Calls in a row in which a static argument may lie elsewhere than before, before it is copied instead."""
_MOVES = 32
"""Calls in all of which that holds for."""
_WARM_UPS = 3
"""How many calls with a key may be warm-ups. Where they have not led to a recording, later calls rarely do."""


@dataclass(slots=True)
class Replay:
    """One recording. `addresses` has those of the arguments that are bound (None for others), which `fits` compares, `copied`
    the positions of the arguments that are copied to `buffers`, `written` pairs of a position and the buffer to copy back.

    `lent` are the tensors that a replay writes; `give` gives them to the caller, copies at positions in `owned`. `overlaps` are results
    of other recordings that lie where a replay writes.
    """

    run: Callable[[], None]
    lent: LentResults
    overlaps: list[Overlap]
    addresses: list[int | None]
    fits: Callable[[list[Any]], bool]
    copied: tuple[int, ...]
    buffers: list[Any]
    written: tuple[tuple[int, Any], ...]
    give: Callable[[], tuple[Any, ...]]
    owned: frozenset[int]


@dataclass(slots=True)
class Key:
    """What is known about the calls with one key."""

    seen: list[int | None]
    """Where static arguments lay in the last call that was not a replay."""
    copied: frozenset[int] = frozenset()
    moves: int = 0
    """Calls in a row in which a static argument lay elsewhere than before."""
    all_moves: int = 0
    used: int = 0
    replay: Replay | None = None
    refused: bool = False
    warm_ups: int = 0
    """Calls that have run as they are before a recording."""

    @property
    def may_warm_up(self) -> bool:
        """Whether a call that runs as it is may come before a recording, rather than in place of one."""
        return self.replay is None and not self.refused and self.warm_ups < _WARM_UPS

    def moved(self, here: list[int | None]) -> Set[int]:
        """The arguments that do not lie in `here` as they did before."""
        last = self.seen if self.replay is None else self.replay.addresses
        return {i for i, at in enumerate(here) if at != last[i]}

    def is_steady(self, here: list[int | None], fixed: Set[int], lent: Set[int]) -> bool:
        """Whether a recording for these addresses will last: static arguments lie where they lay in the call before, or, for a first
        recording, where recordings return them (`lent`), or those that do not are copied from now on, unless they are `fixed` or lent."""
        changed = {i for i in self.moved(here) if here[i] is not None}
        moved = changed - fixed - lent
        self.all_moves += bool(moved)
        is_steady = self.seen == here or (self.replay is None and changed <= lent)
        self.seen = here
        if is_steady and self.all_moves < _MOVES:
            return True
        self.moves += 1
        if self.moves < _STEADY or not moved:
            return is_steady
        self.copied |= moved
        self.seen = [None if i in moved else at for i, at in enumerate(here)]
        return True

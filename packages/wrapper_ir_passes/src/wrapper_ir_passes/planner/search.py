"""The interface of algorithms, and the best of them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from wrapper_ir_passes.planner.buffers import Buffer, Placement, height, least_height, peak_bytes
from wrapper_ir_passes.planner.exact import exact
from wrapper_ir_passes.planner.greedy import best_fit, by_area, by_size


class Algorithm(enum.Enum):
    """How buffers are placed; `best` takes the lowest of all."""

    BEST = "best"
    BY_SIZE = "by-size"
    BY_AREA = "by-area"
    BEST_FIT = "best-fit"


Packer: TypeAlias = Callable[[Sequence[Buffer]], Placement]

PACKERS: Mapping[Algorithm, Packer] = MappingProxyType(
    {Algorithm.BEST_FIT: best_fit, Algorithm.BY_SIZE: by_size, Algorithm.BY_AREA: by_area}
)
"""One function for each algorithm: buffers to places."""

_FEW_PAIRS, _MOST_PAIRS = 2_000_000, 8_000_000
"""Up to so many buffers times those alive at once, `best` takes the time for all algorithms; up to so many for `by-size` too, where
`best-fit` is not near the bound; for more, `best-fit` alone."""
_NEAR = 1.01
_EXACT = 64
"""Up to so many buffers, `best` also searches."""


_STEPS = 5_000
"""So many steps one search takes."""


@dataclass(slots=True)
class SearchBudget:
    """Steps of search that are left for all placements of one plan; a step takes some 20 us. Programs of models take few hundred."""

    steps: int = 20_000


def pack(
    buffers: Sequence[Buffer],
    algorithm: Algorithm = Algorithm.BEST,
    budget: SearchBudget | None = None,
) -> Placement:
    """Places the buffers; with `best`, stops where the bound is reached, and searches among few buffers for some thousand steps,
    which are taken from the budget."""
    if algorithm is not Algorithm.BEST:
        return PACKERS[algorithm](buffers)
    bound = least_height(buffers)
    found = best_fit(buffers)
    pairs = len(buffers) * peak_bytes(Buffer(b.name, b.begin, b.end, 1) for b in buffers)
    enough = bound if pairs <= _FEW_PAIRS else _NEAR * bound
    more = (by_size, by_area) if pairs <= _FEW_PAIRS else (by_size,) if pairs <= _MOST_PAIRS else ()
    for packer in more:
        if height(buffers, found) <= enough:
            break
        found = min(found, packer(buffers), key=lambda places: height(buffers, places))
    if len(buffers) <= _EXACT and height(buffers, found) > bound:
        budget = budget or SearchBudget()
        searched = exact(buffers, found, min(_STEPS, budget.steps))
        budget.steps -= searched.steps
        found = searched.places
    return found

"""The interface of placement algorithms, and the best of them."""

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
    """Placement algorithms; `best` uses the lowest result of all."""

    BEST = "best"
    BY_SIZE = "by-size"
    BY_AREA = "by-area"
    BEST_FIT = "best-fit"


Packer: TypeAlias = Callable[[Sequence[Buffer]], Placement]

PACKERS: Mapping[Algorithm, Packer] = MappingProxyType(
    {Algorithm.BEST_FIT: best_fit, Algorithm.BY_SIZE: by_size, Algorithm.BY_AREA: by_area}
)
"""One function per algorithm: from buffers to places."""

_FEW_PAIRS, _MOST_PAIRS = 2_000_000, 8_000_000
"""Limits on the number of buffers times those alive at once.

Up to the first, `best` runs all algorithms. Up to the second, `by-size` runs too, if `best-fit` is not near
the bound. Above, `best-fit` runs alone.
"""
_NEAR = 1.01
_EXACT = 64
"""Maximum number of buffers for which `best` also searches."""


_STEPS = 5_000
"""Number of steps of one search."""


@dataclass(slots=True)
class SearchBudget:
    """Steps of search left for all placements of one plan.

    A step takes about 20 us. Programs of models need few hundred.
    """

    steps: int = 20_000


def pack(
    buffers: Sequence[Buffer], algorithm: Algorithm = Algorithm.BEST, budget: SearchBudget | None = None
) -> Placement:
    """Places the buffers.

    With `best`, it stops at the bound, and searches among few buffers for some thousand steps, taken from the
    budget.
    """
    if algorithm is not Algorithm.BEST:
        return PACKERS[algorithm](buffers)
    bound = least_height(buffers)
    best = best_fit(buffers)
    pairs = len(buffers) * peak_bytes(Buffer(b.name, b.begin, b.end, 1) for b in buffers)
    enough = bound if pairs <= _FEW_PAIRS else _NEAR * bound
    more = (by_size, by_area) if pairs <= _FEW_PAIRS else (by_size,) if pairs <= _MOST_PAIRS else ()
    for packer in more:
        if height(buffers, best) <= enough:
            break
        best = min(best, packer(buffers), key=lambda places: height(buffers, places))
    if len(buffers) <= _EXACT and height(buffers, best) > bound:
        budget = budget or SearchBudget()
        searched = exact(buffers, best, min(_STEPS, budget.steps))
        budget.steps -= searched.steps
        best = searched.places
    return best

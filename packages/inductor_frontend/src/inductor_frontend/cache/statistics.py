"""Statistics of the cache in this process.

The counts are part of `torch._dynamo.utils.counters`, group `wrapper_ir_cache`, next to torch's counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch._dynamo.utils import counters

_GROUP = "wrapper_ir_cache"
_BYPASS = "bypass: "


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatistics:
    """Counts since the process began, or since `torch._dynamo.utils.counters` was cleared.

    A *function* is the unit that torch.compile passes to the backend; a *graph* is one forward, backward or
    inference graph of it. A function hit skips autograd's tracing and all later steps; its graphs are then
    not looked up.
    """

    function_hits: int = 0
    function_misses: int = 0
    graph_hits: int = 0
    graph_misses: int = 0
    lowered: int = 0
    """Graphs that went through Inductor's passes, lowering and scheduling."""
    stored: int = 0
    damaged: int = 0
    """Entries that did not match their hash or could not be read; each was set aside and compiled again."""
    evicted: int = 0
    unwritten: int = 0
    """Entries that could not be written to the cache's folder and were written to another folder."""
    bypasses: Mapping[str, int] = field(default_factory=dict)
    """Number of compilations that were not cached, by reason: the dependency without a canonical form."""


def stats() -> CacheStatistics:
    """Returns the counts of this process."""
    table = dict(counters[_GROUP])
    bypasses = {name.removeprefix(_BYPASS): n for name, n in table.items() if name.startswith(_BYPASS)}
    names = ("function_hits", "function_misses", "graph_hits", "graph_misses")
    numbers = {
        name: table.get(name, 0) for name in (*names, "lowered", "stored", "damaged", "evicted", "unwritten")
    }
    return CacheStatistics(**numbers, bypasses=bypasses)


def count(name: str, by: int = 1) -> None:
    """Adds `by` to a count."""
    counters[_GROUP][name] += by


def count_bypass(reason: str) -> None:
    """Counts a compilation that could not be cached."""
    counters[_GROUP][f"{_BYPASS}{reason}"] += 1

"""What the cache did in this process. The counts stand among torch's own (`torch._dynamo.utils.counters`), under
`wrapper_ir_cache`, where people look for them; this module gives them names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch._dynamo.utils import counters

_GROUP = "wrapper_ir_cache"
_BYPASS = "bypass: "


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatistics:
    """Counts since the process began, or since `torch._dynamo.utils.counters` was cleared.

    A *function* is what torch.compile gives to the backend, a *graph* one forward, backward or inference graph in it.
    A function found spares autograd's tracing and everything behind it; graphs are then looked for no more.
    """

    function_hits: int = 0
    function_misses: int = 0
    graph_hits: int = 0
    graph_misses: int = 0
    lowered: int = 0
    """Graphs that went through Inductor's passes, lowering and scheduling."""
    stored: int = 0
    damaged: int = 0
    """Entries that did not fit their hash or could not be read; each was set aside and compiled anew."""
    evicted: int = 0
    unwritten: int = 0
    """Entries that the cache's folder did not take: they went to another folder."""
    bypasses: Mapping[str, int] = field(default_factory=dict)
    """How often something was not cached, by the reason: what has no canonical form."""


def stats() -> CacheStatistics:
    """The counts of this process."""
    table = dict(counters[_GROUP])
    bypasses = {name.removeprefix(_BYPASS): n for name, n in table.items() if name.startswith(_BYPASS)}
    names = ("function_hits", "function_misses", "graph_hits", "graph_misses")
    numbers = {
        name: table.get(name, 0) for name in (*names, "lowered", "stored", "damaged", "evicted", "unwritten")
    }
    return CacheStatistics(**numbers, bypasses=bypasses)


def count(name: str, by: int = 1) -> None:
    """Adds to one of the counts."""
    counters[_GROUP][name] += by


def count_bypass(reason: str) -> None:
    """Something could not be cached."""
    counters[_GROUP][f"{_BYPASS}{reason}"] += 1

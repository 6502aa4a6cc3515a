"""What Inductor counts while it lowers a graph, and people read: kept with a graph, and counted again where it comes out of our
cache, as Inductor does for its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from torch._dynamo.utils import counters
from torch._inductor.metrics import CachedMetricsDeltas, CachedMetricsHelper

_GROUP = "inductor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """By how much a compilation raised `torch._inductor.metrics` and `torch._dynamo.utils.counters["inductor"]`, by name."""

    metrics: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)

    def apply(self) -> None:
        """Counts the same again."""
        if self.metrics:
            CachedMetricsHelper.apply_deltas(CachedMetricsDeltas(**self.metrics))
        counters[_GROUP].update(self.counters)


class Watch:
    """Looks at the counts from when it is made."""

    def __init__(self) -> None:
        self._metrics = CachedMetricsHelper()
        self._counters = counters[_GROUP].copy()

    def counts(self) -> Counts:
        """What has been counted since."""
        return Counts(
            metrics=asdict(self._metrics.get_deltas()), counters=dict(counters[_GROUP] - self._counters)
        )


def count_lookup(found: bool) -> None:
    """A graph was looked for in our cache, under the names of Inductor's."""
    counters[_GROUP]["fxgraph_cache_hit" if found else "fxgraph_cache_miss"] += 1

"""Inductor's counters of the lowering of a graph.

They are stored with a graph and added again when it is loaded from the cache, as Inductor does for its cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from torch._dynamo.utils import counters
from torch._inductor.metrics import CachedMetricsDeltas, CachedMetricsHelper

_GROUP = "inductor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Increments of one compilation, by name.

    `metrics`: in `torch._inductor.metrics`. `counters`: in `torch._dynamo.utils.counters["inductor"]`.
    """

    metrics: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)

    def apply(self) -> None:
        """Adds the increments to torch's counters."""
        if self.metrics:
            CachedMetricsHelper.apply_deltas(CachedMetricsDeltas(**self.metrics))
        counters[_GROUP].update(self.counters)


class Watch:
    """Measures the increments since its creation."""

    def __init__(self) -> None:
        self._metrics = CachedMetricsHelper()
        self._counters = counters[_GROUP].copy()

    def counts(self) -> Counts:
        """Returns the increments since the creation of this object."""
        return Counts(
            metrics=asdict(self._metrics.get_deltas()), counters=dict(counters[_GROUP] - self._counters)
        )


def count_lookup(is_hit: bool) -> None:
    """Counts a lookup of a graph under the names of Inductor's cache."""
    counters[_GROUP]["fxgraph_cache_hit" if is_hit else "fxgraph_cache_miss"] += 1

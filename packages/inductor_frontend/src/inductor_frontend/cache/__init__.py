"""The cache of compiled graphs and functions behind `torch.compile(backend="wrapper_ir")`."""

from inductor_frontend.cache.statistics import CacheStatistics, stats

__all__ = ["CacheStatistics", "stats"]

"""The cache of compiled graphs and functions behind `torch.compile(backend="wrapper_ir")`."""

from inductor_frontend.cache.artifacts import load_cache_artifacts, save_cache_artifacts
from inductor_frontend.cache.statistics import CacheStatistics, stats

__all__ = ["CacheStatistics", "load_cache_artifacts", "save_cache_artifacts", "stats"]

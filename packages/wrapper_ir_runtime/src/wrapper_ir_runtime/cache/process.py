"""Caches of this process, one for each configuration."""

from __future__ import annotations

import atexit
import functools
import os

from wrapper_ir_runtime.cache.settings import CacheSettings
from wrapper_ir_runtime.cache.store import Cache


@functools.lru_cache(maxsize=64)
def open_cache(settings: CacheSettings) -> Cache:
    """Returns the process-wide cache of these settings, so that it warns once and counts everything."""
    cache = Cache(settings)
    atexit.register(_flush, cache, os.getpid())
    return cache


def _flush(cache: Cache, owner: int) -> None:
    """Flushes the counts of a process when it ends. A forked process has separate counts, which are not
    flushed here."""
    if os.getpid() == owner:
        cache.flush()

"""The cache carried to another machine or folder, as `torch.compiler.save_cache_artifacts` does for torch's caches."""

from __future__ import annotations

from wrapper_ir_runtime.cache import open_cache, read_settings


def save_cache_artifacts() -> bytes:
    """What this process has found in the cache or written into it: functions and graphs, kernels, emitted modules."""
    return open_cache(read_settings()).pack()


def load_cache_artifacts(artifacts: bytes) -> int:
    """Writes what `save_cache_artifacts` gave into the cache of this process, and says how many entries there are. They hold code that
    will run: `artifacts` must come from somebody who is trusted. Raises StoreError WIR260 for other data."""
    return open_cache(read_settings()).unpack(artifacts)

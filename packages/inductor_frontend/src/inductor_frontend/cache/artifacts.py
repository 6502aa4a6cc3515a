"""Exports the cache to another machine or folder, as `torch.compiler.save_cache_artifacts` does for torch."""

from __future__ import annotations

from wrapper_ir_runtime.cache import open_cache, read_settings


def save_cache_artifacts() -> bytes:
    """Packs the cache entries that this process read or wrote: functions, graphs, kernels, emitted
    modules."""
    return open_cache(read_settings()).pack()


def load_cache_artifacts(artifacts: bytes) -> int:
    """Writes the result of `save_cache_artifacts` into the cache of this process; returns the number of
    entries.

    The entries contain code that will run: `artifacts` must come from a trusted source. Raises StoreError
    WIR260 for other data.
    """
    return open_cache(read_settings()).unpack(artifacts)

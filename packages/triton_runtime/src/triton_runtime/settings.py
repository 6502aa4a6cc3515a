"""Reads the environment; for the cache, see `wrapper_ir_runtime.cache.settings`.

| variable                       | meaning                                         | default                 |
| ------------------------------ | ----------------------------------------------- | ----------------------- |
| `WRAPPER_IR_CXX`, then `CXX`   | the C++ compiler, for the launcher              | `g++`                   |
| `WRAPPER_IR_BUILD_JOBS`        | compiler processes at once                      | processors, 16 at most  |
| `WRAPPER_IR_TRITON_TUNE`       | 1: configs are tuned at first launches          | 0: the first is used    |
| `WRAPPER_IR_TRITON_METRICS`    | a CSV file for choices among kernels            | none                    |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wrapper_ir_runtime.cache import CacheSettings
from wrapper_ir_runtime.cache import read_settings as read_cache_settings

_MOST_JOBS = 16
"""As many processes compile a program's kernels in seconds; each has some 100 MiB of private memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings from the environment."""

    cache: CacheSettings
    jobs: int
    compiler: str = "g++"
    """The C++ compiler, which builds the launcher of CUDA kernels once."""
    metrics: Path | None = None
    """A CSV file for choices among kernels."""
    tune: bool = False
    """Default of tuning configs at first launches."""


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Reads the environment (`os.environ` unless another mapping is given). Raises StoreError WIR256."""
    source = os.environ if env is None else env
    return Settings(
        cache=read_cache_settings(source),
        jobs=_jobs(source.get("WRAPPER_IR_BUILD_JOBS", "")),
        metrics=Path(metrics) if (metrics := source.get("WRAPPER_IR_TRITON_METRICS")) else None,
        tune=source.get("WRAPPER_IR_TRITON_TUNE", "") == "1",
        compiler=source.get("WRAPPER_IR_CXX") or source.get("CXX") or "g++",
    )


def _jobs(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    return min(len(os.sched_getaffinity(0)), _MOST_JOBS)

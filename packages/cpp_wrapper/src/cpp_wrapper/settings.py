"""Settings from the environment; `wrapper_ir_runtime.cache.settings` reads those of the cache.

| variable                     | meaning                    | default           |
| ---------------------------- | -------------------------- | ----------------- |
| `WRAPPER_IR_CXX`, then `CXX` | the C++ compiler           | `g++`             |
| `WRAPPER_IR_BUILD_JOBS`      | compiler processes at once | usable processors |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir_runtime.cache import CacheSettings
from wrapper_ir_runtime.cache import read_settings as read_cache_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings from the environment."""

    cache: CacheSettings
    compiler: str
    jobs: int


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Reads the environment (`os.environ` unless another mapping is given). Raises StoreError WIR256."""
    source = os.environ if env is None else env
    return Settings(
        cache=read_cache_settings(source),
        compiler=source.get("WRAPPER_IR_CXX") or source.get("CXX") or "g++",
        jobs=_jobs(source.get("WRAPPER_IR_BUILD_JOBS", "")),
    )


def _jobs(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    return len(os.sched_getaffinity(0))

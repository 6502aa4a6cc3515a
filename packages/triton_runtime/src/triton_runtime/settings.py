"""The environment, read in one place.

| variable                         | meaning                                                     | default                       |
| -------------------------------- | ----------------------------------------------------------- | ----------------------------- |
| `WRAPPER_IR_CACHE_DIR`           | root of all caches                                          | user cache directory          |
| `WRAPPER_IR_TRITON_CACHE_BYTES`  | how large the store of compiled kernels may grow            | 4 GiB                         |
| `WRAPPER_IR_TRITON_CACHE_SHARED` | an fsspec URL of a store that is only read, as a second one | none                          |
| `WRAPPER_IR_CXX`, then `CXX`     | the C++ compiler, for the launcher                          | `g++`                         |
| `WRAPPER_IR_BUILD_JOBS`          | compiler processes at once                                  | usable processors, 16 at most |
| `WRAPPER_IR_TRITON_TUNE`         | 1: configs are tuned at first launches                      | 0: the first is taken         |
| `WRAPPER_IR_TRITON_METRICS`      | a CSV file for choices among kernels and their times        | none                          |
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings", "read_settings"]

_DEFAULT_BYTES = 4 << 30
_MOST_JOBS = 16
"""A program's kernels are compiled in seconds by as many processes; each holds some 100 MiB of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says."""

    cache_dir: Path
    fallback_dir: Path
    """Used, with a warning, where `cache_dir` cannot be written."""
    jobs: int
    compiler: str = "g++"
    """The C++ compiler; the launcher of CUDA kernels is built with it, once."""
    limit_bytes: int = _DEFAULT_BYTES
    """How large the store of compiled kernels may grow."""
    shared: str = ""
    """An fsspec URL of a store that is only read."""
    metrics: Path | None = None
    """A CSV file that choices among kernels are written to."""
    tune: bool = False
    """Whether configs are tuned at first launches where no options say how."""


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Reads the environment (`os.environ` unless another mapping is given)."""
    source = os.environ if env is None else env
    return Settings(
        cache_dir=_cache_dir(source),
        fallback_dir=Path(tempfile.gettempdir()) / f"wrapper-ir-{os.getuid()}",
        jobs=_jobs(source.get("WRAPPER_IR_BUILD_JOBS", "")),
        limit_bytes=_bytes(source.get("WRAPPER_IR_TRITON_CACHE_BYTES", "")),
        shared=source.get("WRAPPER_IR_TRITON_CACHE_SHARED", ""),
        metrics=Path(metrics) if (metrics := source.get("WRAPPER_IR_TRITON_METRICS")) else None,
        tune=source.get("WRAPPER_IR_TRITON_TUNE", "") == "1",
        compiler=source.get("WRAPPER_IR_CXX") or source.get("CXX") or "g++",
    )


def _cache_dir(env: Mapping[str, str]) -> Path:
    if chosen := env.get("WRAPPER_IR_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "wrapper-ir"


def _bytes(text: str) -> int:
    return int(text) if text.isdecimal() else _DEFAULT_BYTES


def _jobs(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    return min(len(os.sched_getaffinity(0)), _MOST_JOBS)

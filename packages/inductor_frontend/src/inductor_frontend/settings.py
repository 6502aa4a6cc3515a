"""The environment, read in one place.

| variable                           | meaning                                                       | default              |
| ---------------------------------- | ------------------------------------------------------------- | -------------------- |
| `WRAPPER_IR_CACHE_DIR`             | root of all caches; compiled graphs are in `compile` under it | user cache directory |
| `WRAPPER_IR_COMPILE_CACHE`         | `0`: the backend's cache is off; `1`: on; else: its folder    | `1`                  |
| `WRAPPER_IR_COMPILE_CACHE_BYTES`   | how large it may grow; the longest unused entries go first    | 2 GiB                |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings", "read_settings"]

_DEFAULT_BYTES = 2 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says about the cache of `torch.compile(backend="wrapper_ir")`."""

    cache: bool
    folder: Path
    limit_bytes: int


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Reads the environment (`os.environ` unless another mapping is given)."""
    source = os.environ if env is None else env
    choice = source.get("WRAPPER_IR_COMPILE_CACHE", "1")
    folder = _root(source) / "compile" if choice in ("", "0", "1") else Path(choice).expanduser().absolute()
    size = source.get("WRAPPER_IR_COMPILE_CACHE_BYTES", "")
    limit = int(size) if size.isdecimal() else _DEFAULT_BYTES
    return Settings(cache=choice not in ("", "0"), folder=folder, limit_bytes=limit)


def _root(env: Mapping[str, str]) -> Path:
    if chosen := env.get("WRAPPER_IR_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "wrapper-ir"

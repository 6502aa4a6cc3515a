"""The environment, read in one place; for the folders of the cache, `wrapper_ir.store.settings`.

| variable                   | meaning                                | default |
| -------------------------- | -------------------------------------- | ------- |
| `WRAPPER_IR_COMPILE_CACHE` | `0`: the backend's cache is off; `1`: on | `1`     |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir.errors import StoreError
from wrapper_ir.store import CacheSettings
from wrapper_ir.store import read_settings as read_cache_settings

__all__ = ["Settings", "read_settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says about the cache of `torch.compile(backend="wrapper_ir")`."""

    enabled: bool
    cache: CacheSettings


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Reads the environment (`os.environ` unless another mapping is given). Raises StoreError WIR256, WIR257."""
    source = os.environ if env is None else env
    choice = source.get("WRAPPER_IR_COMPILE_CACHE", "1")
    if choice not in ("", "0", "1"):
        raise StoreError(
            "WIR257",
            f"WRAPPER_IR_COMPILE_CACHE is {choice!r}, neither 0 nor 1",
            hint="WRAPPER_IR_CACHE_DIR names the folder of all caches",
        )
    return Settings(enabled=choice == "1", cache=read_cache_settings(source))

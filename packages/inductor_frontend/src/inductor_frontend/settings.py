"""The environment, read in one place; for the folders of the cache, `wrapper_ir.store.settings`.

| variable                   | meaning                                | default |
| -------------------------- | -------------------------------------- | ------- |
| `WRAPPER_IR_COMPILE_CACHE` | `0`: the backend's cache is off; `1`: on | `1`     |
| `WRAPPER_IR_ON_UNSUPPORTED` | `error`: what the backend cannot compile is an error; `inductor`: Inductor compiles it | `inductor` |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from inductor_frontend.errors import CaptureError
from wrapper_ir.errors import StoreError
from wrapper_ir.store import CacheSettings
from wrapper_ir.store import read_settings as read_cache_settings

__all__ = ["OnUnsupported", "Settings", "on_unsupported", "read_settings"]

OnUnsupported = Literal["error", "inductor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says about `torch.compile(backend="wrapper_ir")`: its cache, and what it does with graphs that
    it cannot compile."""

    enabled: bool
    cache: CacheSettings
    on_unsupported: OnUnsupported


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Reads the environment (`os.environ` unless another mapping is given). Raises StoreError WIR256, WIR257,
    and CaptureError FE103."""
    source = os.environ if env is None else env
    choice = source.get("WRAPPER_IR_COMPILE_CACHE", "1")
    if choice not in ("", "0", "1"):
        raise StoreError(
            "WIR257",
            f"WRAPPER_IR_COMPILE_CACHE is {choice!r}, neither 0 nor 1",
            hint="WRAPPER_IR_CACHE_DIR names the folder of all caches",
        )
    unsupported = source.get("WRAPPER_IR_ON_UNSUPPORTED") or "inductor"
    return Settings(
        enabled=choice == "1",
        cache=read_cache_settings(source),
        on_unsupported=on_unsupported(unsupported, "WRAPPER_IR_ON_UNSUPPORTED"),
    )


def on_unsupported(value: object, name: str) -> OnUnsupported:
    """What `name`, an option or a variable, says about graphs that cannot be compiled. Raises CaptureError FE103."""
    for choice in get_args(OnUnsupported):
        if value == choice:
            known: OnUnsupported = choice
            return known
    raise CaptureError("FE103", f"{name} is {value!r}", hint="'error' or 'inductor'")

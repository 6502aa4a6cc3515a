"""The environment, read in one place; for the folders of the cache, `wrapper_ir_runtime.cache.settings`.

| variable                   | meaning                                | default |
| -------------------------- | -------------------------------------- | ------- |
| `WRAPPER_IR_COMPILE_CACHE` | `0`: the backend's cache is off; `1`: on | `1`     |
| `WRAPPER_IR_DEBUG_VALUES` | `off`, `save`, `print`, `names`, or 0 to 3: the level of the pass `debug-values`, which captures run last | Inductor's `AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER` |
| `WRAPPER_IR_DEBUG_FILTER` | names of kernels and operators that are shown, as shell patterns between commas | Inductor's `AOT_INDUCTOR_FILTERED_KERNELS_TO_PRINT` |
| `WRAPPER_IR_DEBUG_DIR` | the folder of saved tensors | `debug_values` |
| `WRAPPER_IR_ON_UNSUPPORTED` | `error`: what the backend cannot compile is an error; `inductor`: Inductor compiles it | `inductor` |
| `WRAPPER_IR_DUMP_COMPILATION` | a folder: all that the backend compiles is written there (see `dump_compilation`) | none |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from torch._inductor import config as inductor_config

from inductor_frontend.errors import CaptureError
from wrapper_ir.errors import StoreError
from wrapper_ir_runtime.cache import CacheSettings
from wrapper_ir_runtime.cache import read_settings as read_cache_settings

DebugLevelName = Literal["off", "save", "print", "names"]
"""Levels of the pass `debug-values`, in the order of Inductor's digits."""

DUMP_FOLDER = "WRAPPER_IR_DUMP_COMPILATION"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugSettings:
    """Which values programs show: the options of the pass `debug-values`."""

    level: DebugLevelName
    filter: str
    directory: str


def read_debug_settings(env: Mapping[str, str] | None = None) -> DebugSettings:
    """What the environment says, or else Inductor's configuration, which has read its own variables. Raises CaptureError FE103."""
    source = os.environ if env is None else env
    theirs = inductor_config.aot_inductor
    level = source.get("WRAPPER_IR_DEBUG_VALUES")
    where = "WRAPPER_IR_DEBUG_VALUES" if level else "aot_inductor.debug_intermediate_value_printer"
    return DebugSettings(
        level=debug_level(level or theirs.debug_intermediate_value_printer, where),
        filter=source.get("WRAPPER_IR_DEBUG_FILTER") or theirs.filtered_kernel_names or "",
        directory=source.get("WRAPPER_IR_DEBUG_DIR") or "debug_values",
    )


def debug_level(value: object, name: str) -> DebugLevelName:
    """A level by its word or Inductor's digit; `name` is what has the value. Raises CaptureError FE103."""
    for digit, word in enumerate(get_args(DebugLevelName)):
        if value in (word, str(digit)):
            known: DebugLevelName = word
            return known
    raise CaptureError("FE103", f"{name} is {value!r}", hint="off, save, print, names, or 0 to 3")


def dump_folder(env: Mapping[str, str] | None = None) -> Path | None:
    """Where to write what is compiled; None for nowhere. Each process of a distributed run has a folder of its own in it."""
    source = os.environ if env is None else env
    folder, rank = source.get(DUMP_FOLDER), source.get("RANK")
    if not folder:
        return None
    return Path(folder) / f"rank_{rank}" if rank else Path(folder)


def on_unsupported(value: object, name: str) -> OnUnsupported:
    """What `name`, an option or a variable, says about graphs that cannot be compiled. Raises CaptureError FE103."""
    for choice in get_args(OnUnsupported):
        if value == choice:
            known: OnUnsupported = choice
            return known
    raise CaptureError("FE103", f"{name} is {value!r}", hint="'error' or 'inductor'")

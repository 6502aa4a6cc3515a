"""Environment variables of this package; those of the cache's folders are in
`wrapper_ir_runtime.cache.settings`.

`WRAPPER_IR_COMPILE_CACHE`: `0` disables the backend's cache, `1` enables it (default).
`WRAPPER_IR_DEBUG_VALUES`: the level of the pass `debug-values`, which captures run last: `off`, `save`,
`print`, `names`, or 0 to 3. Default: Inductor's `AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER`.
`WRAPPER_IR_DEBUG_FILTER`: the names of kernels and operators to show, as comma-separated shell patterns.
Default: Inductor's `AOT_INDUCTOR_FILTERED_KERNELS_TO_PRINT`.
`WRAPPER_IR_DEBUG_DIR`: the folder of saved tensors (default `debug_values`).
`WRAPPER_IR_ON_UNSUPPORTED`: `error`: a graph that the backend cannot compile is an error; `inductor`:
Inductor compiles it (default).
`WRAPPER_IR_DUMP_COMPILATION`: a folder to which all compilations are written (see `dump_compilation`);
default none.
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
    """Settings of `torch.compile(backend="wrapper_ir")`: its cache, and the action for graphs that it cannot
    compile."""

    enabled: bool
    cache: CacheSettings
    on_unsupported: OnUnsupported


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Reads `env` (default `os.environ`). Raises StoreError WIR256, WIR257, and CaptureError FE103."""
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
    """The options of the pass `debug-values`, which shows values of programs."""

    level: DebugLevelName
    filter: str
    directory: str


def read_debug_settings(env: Mapping[str, str] | None = None) -> DebugSettings:
    """Reads `env` (default `os.environ`); unset variables default to Inductor's configuration.

    Raises CaptureError FE103.
    """
    source = os.environ if env is None else env
    defaults = inductor_config.aot_inductor
    level = source.get("WRAPPER_IR_DEBUG_VALUES")
    where = "WRAPPER_IR_DEBUG_VALUES" if level else "aot_inductor.debug_intermediate_value_printer"
    return DebugSettings(
        level=debug_level(level or defaults.debug_intermediate_value_printer, where),
        filter=source.get("WRAPPER_IR_DEBUG_FILTER") or defaults.filtered_kernel_names or "",
        directory=source.get("WRAPPER_IR_DEBUG_DIR") or "debug_values",
    )


def debug_level(value: object, name: str) -> DebugLevelName:
    """Parses a level, a name or Inductor's digit; `name` is the option or variable. Raises CaptureError
    FE103."""
    for digit, word in enumerate(get_args(DebugLevelName)):
        if value in (word, str(digit)):
            level: DebugLevelName = word
            return level
    raise CaptureError("FE103", f"{name} is {value!r}", hint="off, save, print, names, or 0 to 3")


def dump_folder(env: Mapping[str, str] | None = None) -> Path | None:
    """Returns the dump folder; None if dumping is disabled. Each rank of a distributed run has a
    subfolder."""
    source = os.environ if env is None else env
    folder, rank = source.get(DUMP_FOLDER), source.get("RANK")
    if not folder:
        return None
    return Path(folder) / f"rank_{rank}" if rank else Path(folder)


def on_unsupported(value: object, name: str) -> OnUnsupported:
    """Parses the value of `name`, an option or variable. Raises CaptureError FE103."""
    for choice in get_args(OnUnsupported):
        if value == choice:
            action: OnUnsupported = choice
            return action
    raise CaptureError("FE103", f"{name} is {value!r}", hint="'error' or 'inductor'")

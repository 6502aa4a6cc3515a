"""What a caller may choose for an interpretation, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wrapper_ir.ops import DebugValue
from wrapper_ir.registry import kernel_runtime
from wrapper_ir.runtime.kernels import FindRuntime

__all__ = ["DebugHook", "InterpOptions", "MemoryReport"]

# Any: the machine's tensors and numbers, by value name
DebugHook = Callable[[DebugValue, dict[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpOptions:
    """`poison` fills uninitialised and freed storages with this byte (None: leaves them as they are).

    `max_ops` stops a run after so many ops (None: never) with ExecutionError WIR928. `find_runtime` finds the
    runtimes of kernels. `debug` receives the values of `DebugValue` ops (None: prints, or saves to the working
    directory).
    """

    poison: int | None = None
    max_ops: int | None = None
    find_runtime: FindRuntime = kernel_runtime
    debug: DebugHook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """Storages that a run made (inputs and constants do not count): how many and how many bytes in all, the most
    bytes live at once, and the bytes still live at the end (the results')."""

    storages: int = 0
    total_bytes: int = 0
    peak_bytes: int = 0
    live_bytes: int = 0

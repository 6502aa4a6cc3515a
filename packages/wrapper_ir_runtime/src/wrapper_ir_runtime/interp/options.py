"""Options and memory report of the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wrapper_ir import ir
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_runtime.kernels import FindRuntime

DebugHook = Callable[[ir.DebugValue, dict[str, Any]], None]
"""Called for a debug op, with the values by name. Any: the machine's tensors and numbers."""
ProfileHook = Callable[[ir.EnterProfile, bool], None]
"""Called at the beginning of a profile scope with True, and at its end with False, unless an error ends it.
"""
CallHook = Callable[[ir.ExternDef, Sequence[object], Mapping[str, object], Callable[[], object]], object]
"""Called instead of a library operator, with its arguments and a function that calls it; returns its result.
"""
LaunchHook = Callable[[str, Callable[[], None]], None]
"""Called instead of a launch, with the kernel's name and a function that launches it."""
Handler = Callable[..., None]
"""Executes an op of the class that is its key; called with the op and the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpOptions:
    """Options of an interpretation.

    `poison` fills uninitialized and freed storages with this byte (None: unchanged). `max_ops` stops a run
    after this many ops (None: never) with ExecutionError WIR928. `find_runtime` finds the runtimes of
    kernels.

    `debug` receives the values of `DebugValue` ops (None: they are printed or saved, as in emitted programs).
    `profile` is called at both ends of `EnterProfile` scopes. `call` wraps library operators, and `launch`
    wraps kernels (None: direct calls).

    `guarded` properties are not checked. `operators` defines which operators a program may call
    (NotSupportedError WIR917). `handlers` execute ops that are not part of the IR, by class.
    """

    poison: int | None = None
    max_ops: int | None = None
    find_runtime: FindRuntime = kernel_runtime
    debug: DebugHook | None = None
    profile: ProfileHook | None = None
    call: CallHook | None = None
    launch: LaunchHook | None = None
    guarded: ir.Guarded = ir.NOT_GUARDED
    operators: OperatorPolicy = DEFAULT_OPERATORS
    handlers: Mapping[type[ir.OpBase], Handler] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """Storages that a run created, without inputs and constants.

    Their number and total bytes, the peak of live bytes, and the bytes still live at the end (the results).
    """

    storages: int = 0
    total_bytes: int = 0
    peak_bytes: int = 0
    live_bytes: int = 0

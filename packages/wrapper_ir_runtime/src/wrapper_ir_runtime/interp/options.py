"""Options of an interpretation, and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wrapper_ir import ir
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_runtime.kernels import FindRuntime

# Any: the machine's tensors and numbers, by value name
DebugHook = Callable[[ir.DebugValue, dict[str, Any]], None]
ProfileHook = Callable[[ir.EnterProfile, bool], None]
"""Called where a profile scope begins, with True, and where it ends, with False; not where a failure ends it."""
CallHook = Callable[[ir.ExternDef, Sequence[Any], Mapping[str, Any], Callable[[], Any]], Any]
"""Called in place of a library operator, with its positional and keyword arguments and a function that calls it; returns its
result."""
LaunchHook = Callable[[str, Callable[[], None]], None]
"""Called in place of a launch, with the kernel's name and a function that launches it."""
Handler = Callable[..., None]
"""Called with an op of the class that is its key, and with the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpOptions:
    """`poison` fills uninitialised and freed storages with this byte (None: leaves them as they are).

    `max_ops` stops a run after so many ops (None: never) with ExecutionError WIR928. `find_runtime` finds the
    runtimes of kernels. `debug` receives the values of `DebugValue` ops (None: prints or saves, as emitted
    programs do), `profile` is called at both ends of `EnterProfile` scopes. `guarded` is not checked.
    `call` stands between the program and library operators, `launch` between it and kernels (None: they are just called).
    `operators` are the operators that a program may call (`NotSupportedError` WIR917). `handlers` run ops that are not the IR's own, by their classes.
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
    """Storages that a run made (inputs and constants do not count): how many and how many bytes in all, the most
    bytes live at once, and the bytes still live at the end (the results')."""

    storages: int = 0
    total_bytes: int = 0
    peak_bytes: int = 0
    live_bytes: int = 0

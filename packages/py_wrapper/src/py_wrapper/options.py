"""What a caller may choose about emitted Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wrapper_ir import ir
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_runtime import FindRuntime


@dataclass(frozen=True, slots=True, kw_only=True)
class PyOptions:
    """`name` is the module's name (and its file's, in a folder).

    `comments` writes source ops above the lines that compute them. `check_results` holds the layouts of results that
    operators allocate against their declared types. `persistent_buffers` holds the memory of intermediate results of
    fixed sizes from call to call, for each stream: calls neither allocate nor make views, and the memory is not free
    in between. `recordings` is how many recordings a recordable function may have at a time, on a device that records (see
    `wrapper_ir_runtime.Recorded`); with 0 it is called as any other. `repeated_operators`: the kernels of matmuls and attention on a GPU are
    launched again without torch where their operands lie and look as in an earlier call (see `wrapper_ir_torch.repeated_operator`). `poison` fills uninitialised and freed storages with this byte, for tests; then nothing is kept.
    `cache_folder` is the root of the cache where `compile` puts modules (None: as `wrapper_ir_runtime.cache.settings` says).
    `find_runtime` finds the runtimes of kernels for `compile`. `guarded` is what the module need not check.
    `operators` says which operators a program may call (`NotSupportedError` WIR917).
    """

    name: str = "program"
    comments: bool = True
    check_results: bool = True
    persistent_buffers: bool = False
    recordings: int = 16
    repeated_operators: bool = True
    poison: int | None = None
    cache_folder: Path | None = None
    find_runtime: FindRuntime = kernel_runtime
    guarded: ir.Guarded = ir.NOT_GUARDED
    operators: OperatorPolicy = DEFAULT_OPERATORS

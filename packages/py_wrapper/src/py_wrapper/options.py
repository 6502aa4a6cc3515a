"""Options of emitted Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wrapper_ir import ir
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_runtime import FindRuntime


@dataclass(frozen=True, slots=True, kw_only=True)
class PyOptions:
    """Options of `emit`, `write` and `compile`. `name` is the name of the module and of its file.

    `comments` writes source ops above the lines that compute them. `check_results` compares layouts of
    results that operators allocate with their declared types. `persistent_buffers` keeps the memory of
    intermediate results of fixed sizes between calls, for each stream: calls neither allocate nor create
    views, and the memory is not freed in between. `cuda_graphs` is the maximal number of concurrent graphs
    of a replayable function, on a GPU (see `wrapper_ir_runtime.GraphedFunction`); 0 captures none.
    `repeated_operators`: the kernels of matmuls and attention on a GPU are launched again without
    torch if address and layout of their operands equal those of an earlier call (see
    `wrapper_ir_torch.repeated_operator`). `poison` fills uninitialized and freed storages with this byte, for
    tests, and keeps no memory. `cache_folder` is the root of the cache for modules of `compile` (None: as
    `wrapper_ir_runtime.cache.settings` defines). `find_runtime` finds the runtimes of kernels for `compile`.
    `guarded`: properties of inputs that the caller checks. `operators`: the operators that a program may call
    (`NotSupportedError` WIR917).
    """

    name: str = "program"
    comments: bool = True
    check_results: bool = True
    persistent_buffers: bool = False
    cuda_graphs: int = 16
    repeated_operators: bool = True
    poison: int | None = None
    cache_folder: Path | None = None
    find_runtime: FindRuntime = kernel_runtime
    guarded: ir.Guarded = ir.NOT_GUARDED
    operators: OperatorPolicy = DEFAULT_OPERATORS

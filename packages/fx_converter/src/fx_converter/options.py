"""What a caller may choose about graphs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from torch._subclasses.fake_tensor import FakeTensorMode

from fx_converter.compilers import GraphCompiler
from fx_converter.errors import ConvertError
from fx_converter.kernels import KernelCalls
from fx_converter.tuning import KernelTuning
from wrapper_ir import ir
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_runtime import FindRuntime

Convention = Literal["model", "flat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FxOptions:
    """Choices of `convert` and `compile`.

    `kernel_calls`: "direct" calls loaded kernels, operators and allocators the fastest way; "hop" calls only what
    torch's own passes understand and can trace again: registered operators, and `triton_kernel_wrapper_mutation` for
    Triton. `convention`: whether the graph module is called with the model's own arguments ("model") or with the
    program's flat ones. `assertions` keeps the program's run-time checks as nodes. `check_results` holds what operators
    return against its declared layout. `fake_mode` is where fake values in `node.meta["val"]` live; None makes a mode
    from the program's symbols. `find_runtime` finds the runtimes of kernels. `tune` measures what a program leaves open
    of its kernels before it is converted; None takes what it has: choices that tuning wrote, else first configs.
    `compilers` are those that `compile` hands graphs to, by type of device; None takes the installed ones. `forbid`:
    classes of ops that a graph must not have (ConvertError FX106). `persistent_buffers`: what `compile` makes holds the
    memory of intermediate results of fixed sizes from call to call, for each stream, where no other compiler takes the
    graph. `recordings`: how many recordings what `compile` makes may have of a recordable function at a time, where calls are
    "direct" (see `wrapper_ir_runtime.Recorded`); 0 records none. `repeated_operators`: what `compile` makes launches the kernels of attention and matrix
    matmuls on a GPU again without torch where their operands lie and look as in an earlier call (see `wrapper_ir_torch.repeated_operator`). `guarded`: what the graph need not check. `operators`: which operators a program may call
    (`NotSupportedError` WIR917), of a file's graph too. Raises ConvertError FX103 for other values.
    """

    kernel_calls: KernelCalls = "direct"
    convention: Convention = "model"
    assertions: bool = True
    check_results: bool = True
    fake_mode: FakeTensorMode | None = None
    find_runtime: FindRuntime = kernel_runtime
    tune: KernelTuning | None = None
    compilers: Mapping[str, GraphCompiler] | None = None
    forbid: Collection[type[ir.OpBase]] = ()
    persistent_buffers: bool = False
    recordings: int = 16
    repeated_operators: bool = True
    guarded: ir.Guarded = ir.NOT_GUARDED
    operators: OperatorPolicy = DEFAULT_OPERATORS

    def __post_init__(self) -> None:
        for name, held, choices in (
            ("kernel_calls", self.kernel_calls, get_args(KernelCalls)),
            ("convention", self.convention, get_args(Convention)),
        ):
            if held not in choices:
                raise ConvertError(
                    "FX103", f"option {name!r} is {held!r}", hint=f"one of {', '.join(choices)}"
                )
        others = [op for op in self.forbid if op not in ir.OPS]
        if others:
            raise ConvertError(
                "FX103", f"option 'forbid' has {others[0]!r}", hint="name classes of ops, such as ir.Launch"
            )

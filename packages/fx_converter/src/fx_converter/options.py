"""Options of conversions."""

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
    """Options of `convert` and `compile`.

    `kernel_calls`: "direct" calls loaded kernels, operators and allocators the fastest way; "hop" calls only
    targets that torch's passes can trace again: registered operators, and `triton_kernel_wrapper_mutation`
    for Triton kernels. `convention`: whether the graph module is called with the model's arguments ("model")
    or with the program's flat ones ("flat"). `assertions` keeps the program's run-time checks as nodes.
    `check_results` compares results of operators with their declared layout. `fake_mode` is the mode of the
    fake values in `node.meta["val"]`; None creates one from the program's symbols. `find_runtime` finds the
    runtimes of kernels. `tune` measures the undecided kernels of a program before it is converted; None uses
    its recorded choices, or else first configs. `compilers` are the compilers that `compile` passes graphs
    to, by type of device; None uses the installed ones. `forbid`: classes of ops that a graph must not have
    (ConvertError FX106). `persistent_buffers`: compiled programs keep the memory of intermediate results of
    fixed sizes between calls, for each stream, unless a compiler receives the graph. `cuda_graphs`: the
    maximal number of concurrent graphs of a replayable function, if calls are "direct" (see
    `wrapper_ir_runtime.GraphedFunction`); 0 captures none. `repeated_operators`: compiled programs launch
    the kernels of attention and matmuls on a GPU again without torch if address and layout of their
    operands equal those of an earlier call (see `wrapper_ir_torch.repeated_operator`). `guarded`: properties
    of inputs that the caller checks. `operators`: the operators that a program, or the graph of a file, may
    call (`NotSupportedError` WIR917). Raises ConvertError FX103 for other values.
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
    cuda_graphs: int = 16
    repeated_operators: bool = True
    guarded: ir.Guarded = ir.NOT_GUARDED
    operators: OperatorPolicy = DEFAULT_OPERATORS

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("kernel_calls", self.kernel_calls, get_args(KernelCalls)),
            ("convention", self.convention, get_args(Convention)),
        ):
            if value not in choices:
                raise ConvertError(
                    "FX103", f"option {name!r} is {value!r}", hint=f"one of {', '.join(choices)}"
                )
        others = [op for op in self.forbid if op not in ir.OPS]
        if others:
            raise ConvertError(
                "FX103", f"option 'forbid' has {others[0]!r}", hint="name classes of ops, such as ir.Launch"
            )

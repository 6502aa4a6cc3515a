"""What differs between the supported versions of torch, in one place."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch._higher_order_ops import effects
from torch._inductor import compile_fx, ir
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.post_grad import noop_registry
from torch._inductor.graph import GraphLowering
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.numbers import int_oo

# Any in this file: torch publishes no types for these objects, or their classes differ between versions.


class _Absent(ir.ExternKernel):
    """Stands for a node class that the installed torch does not have: nothing is an instance of it."""


# Out variants with several results, and opaque results, came after 2.11.
EXTERN_MULTI_OUT: type[Any] = getattr(ir, "ExternKernelMultiOut", _Absent)
ALLOCATING_MULTI_OUTPUT: type[Any] = getattr(ir, "AllocatingMultiOutput", _Absent)
OPAQUE_INPUT: type[Any] = getattr(ir, "OpaqueObjectState", _Absent)
OPAQUE_MULTI_OUTPUT: type[Any] = getattr(ir, "OpaqueMultiOutput", _Absent)
SHALLOW_COPY: type[Any] = getattr(ir, "ShallowCopyDataKernel", _Absent)
"""What torch makes of `x.data = y` from 2.14 on: a subclass of an operator's, with another operator's name."""

_CONDITIONAL: type[Any] = getattr(ir, "Conditional", _Absent)
SWITCH: type[Any] = getattr(ir, "Switch", _CONDITIONAL)
"""The class of `torch.cond`; from 2.14 also that of `torch.switch`."""


@dataclass(frozen=True, slots=True)
class Switched:
    """`selector` chooses one of `branches`: where `is_two_way` it is a truth, which chooses the first, else a position."""

    selector: Any
    branches: tuple[ir.Subgraph, ...]
    is_two_way: bool


def _orders_streams() -> bool:
    try:
        from torch._functorch._aot_autograd import graph_capture
    except ImportError:
        return False
    hooks, ordering = vars(PythonWrapperCodegen), vars(graph_capture)
    return "codegen_cuda_stream_enter" in hooks and "wrap_all_sync_nodes_with_control_deps" in ordering


REPORTS_SIDE_EFFECTS = hasattr(torch._dynamo.config, "side_effect_replay_policy")
"""Whether an export by way of Dynamo tells of what a model does to Python objects."""

ORDERS_STREAMS = _orders_streams()
"""Whether torch schedules the streams of a model, and keeps what orders them in the graph: torch 2.11 does not."""

LOWERS_ANY_SLICE = torch.__version__ >= "2.13"  # compared as versions
"""Whether Inductor lowers a slice of a dimension without bounds, where sizes have no hints; before, it took the slice's size
for one that the tensor's values tell."""


def complete_ranges(shape_env: Any) -> None:
    """Gives symbols without a range the one that torch gives to strides: a program that was saved has those of sizes only."""
    for symbol, hint in ({} if shape_env is None else dict(shape_env.backed_var_to_val)).items():
        if symbol not in shape_env.var_to_range:
            least = 2 if hint >= 2 else 0
            shape_env.constrain_symbol_range(symbol, compiler_min=least, compiler_max=int_oo)


def spec_children(spec: Any) -> list[Any]:
    """The children of a pytree spec (untyped: its class differs between versions)."""
    children = getattr(spec, "children", None)
    return list(children()) if callable(children) else list(spec.children_specs)


def entered_stream(stream: int) -> Any:
    """What torch's scheduler remembers of a stream that it entered. torch 2.11 enters none."""
    from torch._inductor.codegen.wrapper import EnterCudaStreamContextLine

    return EnterCudaStreamContextLine(stream_idx=stream)


def is_namedtuple(spec: Any) -> bool:
    """Whether a pytree spec is a named tuple's: its class is its context."""
    return spec.type is pytree.namedtuple  # type: ignore[attr-defined]  # how torch itself refers to it


def shape_env_from_inputs(inputs: Any) -> Any:
    """The ShapeEnv that fake or symbolic inputs belong to; None for none. All untyped torch."""
    return compile_fx.shape_env_from_inputs(inputs)  # type: ignore[attr-defined]  # defined elsewhere since 2.12


def is_effectful(overload: Any) -> bool:
    """Whether torch orders calls of this operator with an effect token."""
    return bool(effects.has_effects(overload))


def defers_input_checks() -> bool:
    """Whether torch checks an input before its first use; before 2.12 it checked all of them at the start."""
    return hasattr(PythonWrapperCodegen, "codegen_deferred_input_asserts")


def decomposition_argument() -> dict[str, Any]:
    """The argument by which a graph lowering is told the decompositions; before 2.12 it looked them up itself."""
    if "get_decomp_fn" in inspect.signature(GraphLowering.__init__).parameters:
        return {"get_decomp_fn": select_decomp_table}
    return {}


def switch_of(node: Any) -> Switched:
    """What a node of class `SWITCH` chooses by, and from. Before 2.14, torch had `torch.cond` alone; since then, its truth is
    the number 1, and the branch for it comes second."""
    if isinstance(node, _CONDITIONAL):
        branches = (node.true_subgraph, node.false_subgraph)
        return Switched(node.predicate, branches, is_two_way=True)
    branches = tuple(reversed(node.branches)) if node.is_cond else tuple(node.branches)
    return Switched(node.selector, branches, is_two_way=node.is_cond)


def subgraphs_of(node: ir.ExternKernel) -> list[ir.Subgraph]:
    """The subgraphs that a control flow node calls, in torch's order; before 2.12 nodes did not list them."""
    if isinstance(node, SWITCH):
        return list(switch_of(node).branches)
    match node:
        case ir.WhileLoop():
            found = [node.cond_subgraph, node.body_subgraph]
        case ir.InvokeSubgraph():
            found = [node.subgraph]
        case _:
            return []
    return [s for s in found if s is not None]


def own_options(subgraph: ir.Subgraph) -> tuple[str, ...]:
    """The options of Inductor that a model sets for a region alone; before 2.14 a region has none."""
    return tuple(getattr(subgraph, "inductor_config_patches", None) or ())


def launched_by_name(told: tuple[Any, ...]) -> dict[str, Any]:
    """The argument of a launch's node with the names that the launch was given arguments by, from what torch's tracer tells
    after those. torch 2.13 tells no names."""
    return {"launch_kwargs": told[0]} if len(told) > 1 else {}


def without_options(node: Any) -> None:
    """Takes from a launch on a CPU (a UserDefinedTritonKernel) the names among which torch 2.15 looks for options of Triton's
    compiler: there is none for CPUs, and the interpreter takes no options."""
    if node.get_device().type == "cpu":
        node.launch_kwargs = ()


def removed_copy_of(node: torch.fx.Node) -> tuple[Any, Any] | None:
    """Under which condition Inductor removes a node as a copy, and what it then takes in its place; None for others. A function
    that finds the latter takes the node's arguments in torch 2.13, the node in 2.15."""
    found: Any = noop_registry.get(node.target)
    if found is None:
        return None
    condition, which = found
    if not callable(which):
        return condition, node.args[which]
    return condition, which(node.args if "args" in inspect.signature(which).parameters else node)


def written_parameters(node: Any) -> frozenset[str]:
    """The parameters of a model's own Triton kernel (a UserDefinedTritonKernel) that it writes to, as far as torch
    knows; before 2.12 the node kept the tensors alone, so all parameters that are given one of them count."""
    accesses = getattr(node, "arg_accesses", None)
    if accesses is not None:
        return frozenset(key.name for key in accesses.read_writes.writes)
    written = {buffer.get_name() for buffer in node.mutable_args}
    tensors = {
        name: arg.get_tensor() if isinstance(arg, ir.TMADescriptor) else arg
        for name, arg in node.kwargs.items()
    }
    return frozenset(
        name for name, x in tensors.items() if isinstance(x, ir.IRNode) and x.get_name() in written
    )


def guard_texts(exported: Any) -> list[str]:
    """The guards over sizes that an exported program was made under, as Python text; torch has no public name for
    them."""
    return list(exported._guards_code)


def detect_shape_env(values: Any) -> Any:
    """The ShapeEnv that the first symbolic value belongs to; None for none. All untyped torch."""
    for value in values:
        holder = getattr(value, "fake_mode", None) or getattr(value, "node", None)
        env = getattr(holder, "shape_env", None)
        if env is not None:
            return env
    return None


class _Called(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base class
    """Notes the operators that are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def inverts_masks() -> bool:
    """Whether `scaled_dot_product_attention` takes the opposite of a mask of truths before it makes numbers of it. No
    release says when that changed, so it is asked on the CPU."""
    q = torch.zeros(1, 1, 1, 8)
    with torch.no_grad(), _Called() as called:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, torch.ones(1, 1, dtype=torch.bool))
    return "aten.logical_not.default" in called.names


def takes_offsets_off(graph: GraphLowering) -> bool:
    """Whether torch takes the storage offset of an input off the offsets that a model gives to `as_strided`; 2.11 does
    not."""
    return hasattr(graph, "graph_input_storage_offsets")

"""Differences between the supported versions of torch, in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch._inductor.utils import InputType
    from torch._ops import OpOverload
    from torch.export import ExportedProgram
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

# Any in this file: torch publishes no types for these objects, or their classes differ between versions.


class _Absent(ir.ExternKernel):
    """Placeholder for a node class that the installed torch does not have: it has no instances."""


# Out variants with several results, and opaque results, were added after 2.11.
EXTERN_MULTI_OUT: type[Any] = getattr(ir, "ExternKernelMultiOut", _Absent)
ALLOCATING_MULTI_OUTPUT: type[Any] = getattr(ir, "AllocatingMultiOutput", _Absent)
OPAQUE_INPUT: type[Any] = getattr(ir, "OpaqueObjectState", _Absent)
OPAQUE_MULTI_OUTPUT: type[Any] = getattr(ir, "OpaqueMultiOutput", _Absent)
SHALLOW_COPY: type[Any] = getattr(ir, "ShallowCopyDataKernel", _Absent)
"""Node class of `x.data = y` since 2.14: a subclass of an operator's node, with the name of another
operator."""

_CONDITIONAL: type[Any] = getattr(ir, "Conditional", _Absent)
SWITCH: type[Any] = getattr(ir, "Switch", _CONDITIONAL)
"""Node class of `torch.cond`; since 2.14 also of `torch.switch`."""


@dataclass(frozen=True, slots=True)
class Switched:
    """A branch selection. `selector` is a bool that selects the first of two `branches` (`is_two_way`), or a
    position."""

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
"""True if an export through Dynamo reports side effects of a model on Python objects."""

ORDERS_STREAMS = _orders_streams()
"""True if torch schedules the streams of a model, and keeps operators that order them in the graph; not in
torch 2.11."""

LOWERS_ANY_SLICE = torch.__version__ >= "2.13"  # compared as versions
"""True if Inductor lowers a slice of an unbounded dimension without size hints; before, it assumed a
data-dependent size."""


def complete_ranges(shape_env: ShapeEnv | None) -> None:
    """Sets missing ranges of symbols to the default range of strides: a saved program has only the ranges of
    sizes."""
    if shape_env is None:
        return
    for symbol, hint in list(shape_env.backed_var_to_val.items()):
        if symbol not in shape_env.var_to_range:
            least = 2 if hint >= 2 else 0
            shape_env.constrain_symbol_range(symbol, compiler_min=least, compiler_max=int_oo)


def spec_children(spec: Any) -> list[Any]:
    """Returns the children of a pytree spec (untyped: its class differs between versions)."""
    children = getattr(spec, "children", None)
    return list(children()) if callable(children) else list(spec.children_specs)


def entered_stream(stream: int) -> object:
    """Returns the line that torch's scheduler keeps for an entered stream. Torch 2.11 enters none."""
    from torch._inductor.codegen.wrapper import EnterCudaStreamContextLine

    return EnterCudaStreamContextLine(stream_idx=stream)


def is_namedtuple(spec: object) -> bool:
    """Returns whether a pytree spec is that of a named tuple, whose context is its class."""
    return spec.type is pytree.namedtuple  # type: ignore[attr-defined]  # how torch itself refers to it


def shape_env_from_inputs(inputs: Sequence[InputType]) -> ShapeEnv | None:
    """Returns the ShapeEnv of fake or symbolic inputs; None if no input has one."""
    # Defined in another module since 2.12.
    return compile_fx.shape_env_from_inputs(inputs)  # type: ignore[attr-defined]  # torch does not export it


def is_effectful(overload: OpOverload) -> bool:
    """Returns whether torch orders calls of this operator by an effect token."""
    return bool(effects.has_effects(overload))


def defers_input_checks() -> bool:
    """Returns whether torch checks an input before its first use; before 2.12 it checked all of them at the
    start."""
    return hasattr(PythonWrapperCodegen, "codegen_deferred_input_asserts")


def decomposition_argument() -> dict[str, Any]:
    """Returns the keyword argument that passes decompositions to a graph lowering; none before 2.12, which
    looked them up."""
    if "get_decomp_fn" in inspect.signature(GraphLowering.__init__).parameters:
        return {"get_decomp_fn": select_decomp_table}
    return {}


def switch_of(node: Any) -> Switched:
    """Returns selector and branches of a node of class `SWITCH`.

    Before 2.14, torch had only `torch.cond`. Since then, a true predicate is the number 1, which selects the
    second branch.
    """
    if isinstance(node, _CONDITIONAL):
        branches = (node.true_subgraph, node.false_subgraph)
        return Switched(node.predicate, branches, is_two_way=True)
    branches = tuple(reversed(node.branches)) if node.is_cond else tuple(node.branches)
    return Switched(node.selector, branches, is_two_way=node.is_cond)


def subgraphs_of(node: ir.ExternKernel) -> list[ir.Subgraph]:
    """Returns the subgraphs that a control flow node calls, in torch's order; before 2.12 nodes did not list
    them."""
    if isinstance(node, SWITCH):
        return list(switch_of(node).branches)
    match node:
        case ir.WhileLoop():
            subgraphs = [node.cond_subgraph, node.body_subgraph]
        case ir.InvokeSubgraph():
            subgraphs = [node.subgraph]
        case _:
            return []
    return [s for s in subgraphs if s is not None]


def own_options(subgraph: ir.Subgraph) -> tuple[str, ...]:
    """Returns the Inductor options that a model sets for a single region; before 2.14 a region has none."""
    return tuple(getattr(subgraph, "inductor_config_patches", None) or ())


def launched_by_name(details: tuple[object, ...]) -> dict[str, object]:
    """Returns the keyword argument of a launch's node with the names of arguments that were passed by name.

    `details` are the trailing arguments of torch's tracer. They have no names in torch 2.13.
    """
    return {"launch_kwargs": details[0]} if len(details) > 1 else {}


def without_options(node: Any) -> None:
    """Clears the names that torch 2.15 would treat as Triton compiler options, for a launch on a CPU.

    `node` is a UserDefinedTritonKernel. No compiler exists for CPUs, and the interpreter accepts no options.
    """
    if node.get_device().type == "cpu":
        node.launch_kwargs = ()


def removed_copy_of(node: torch.fx.Node) -> tuple[Any, object] | None:
    """Returns the condition under which Inductor removes a node as a copy, and its replacement; None for
    other nodes.

    A function that finds the replacement receives the node's arguments in torch 2.13, and the node in 2.15.
    """
    entry: Any = noop_registry.get(node.target)
    if entry is None:
        return None
    condition, which = entry
    if not callable(which):
        return condition, node.args[which]
    return condition, which(node.args if "args" in inspect.signature(which).parameters else node)


def written_parameters(node: Any) -> frozenset[str]:
    """Returns the parameters that a model's own Triton kernel (a UserDefinedTritonKernel) writes, as far as
    torch knows.

    Before 2.12 the node had only the tensors, so that every parameter with one of them counts.
    """
    accesses = getattr(node, "arg_accesses", None)
    if accesses is not None:
        return frozenset(key.name for key in accesses.read_writes.writes)
    mutated = {buffer.get_name() for buffer in node.mutable_args}
    tensors = {
        name: arg.get_tensor() if isinstance(arg, ir.TMADescriptor) else arg
        for name, arg in node.kwargs.items()
    }
    return frozenset(
        name for name, x in tensors.items() if isinstance(x, ir.IRNode) and x.get_name() in mutated
    )


def guard_texts(exported: ExportedProgram) -> list[str]:
    """Returns the size guards of an exported program as Python text; torch has no public name for them."""
    return list(exported._guards_code)


def detect_shape_env(values: Iterable[object]) -> ShapeEnv | None:
    """Returns the ShapeEnv of the first symbolic value; None if no value is symbolic."""
    for value in values:
        holder = getattr(value, "fake_mode", None) or getattr(value, "node", None)
        env: ShapeEnv | None = getattr(holder, "shape_env", None)
        if env is not None:
            return env
    return None


class _Called(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base class
    """Dispatch mode that records the names of called operators."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's base class
        self.names: list[str] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def inverts_masks() -> bool:
    """Returns whether `scaled_dot_product_attention` inverts a boolean mask before it converts it to numbers.

    The change is not tied to a release, so an example is run on the CPU.
    """
    q = torch.zeros(1, 1, 1, 8)
    with torch.no_grad(), _Called() as calls:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, torch.ones(1, 1, dtype=torch.bool))
    return "aten.logical_not.default" in calls.names


def takes_offsets_off(graph: GraphLowering) -> bool:
    """Returns whether torch subtracts an input's storage offset from offsets of `as_strided`; 2.11 does
    not."""
    return hasattr(graph, "graph_input_storage_offsets")

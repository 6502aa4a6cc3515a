"""Suggests changes for graphs that Inductor refuses: searches the graph for operators that it cannot
lower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._inductor import config as inductor_config

from inductor_frontend.torch_patches._compat import LOWERS_ANY_SLICE
from inductor_frontend.torch_patches.symbol_facts import symbol_range
from wrapper_ir_torch.graph_modules import nested_nodes

if TYPE_CHECKING:
    from torch._inductor.utils import InputType
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

_LOOPS = (torch.ops.higher_order.while_loop, torch.ops.higher_order.while_loop_stack_output)
_SUMS = ("_c10d_functional.all_reduce.default", "_c10d_functional.all_reduce_.default")
_ROLLED = (torch.ops.higher_order.scan, torch.ops.higher_order.map_impl)


def lowering_hint(gm: fx.GraphModule, inputs: Sequence[InputType]) -> str:
    """Returns how to change control flow and slices that Inductor cannot lower; '' if the graph has none of
    them."""
    mode = detect_fake_mode(inputs)
    env = mode.shape_env if mode is not None else None
    for node in _calls(gm):
        if node.target in _LOOPS and any(not _is_tensor(x) for x in _sequence(node.args[2])):
            return f"{node.name} carries integers: carry tensors of one element instead"
        if node.target is torch.ops.higher_order.cond and any(
            not isinstance(x, torch.Tensor) for x in _sequence(node.meta.get("val"))
        ):
            return f"the branches of {node.name} return numbers: return tensors of one element instead"
        if node.target in _ROLLED and env is not None and not env.allow_scalar_outputs:
            return f"{node.name} needs torch._dynamo.config.capture_scalar_outputs = True"
        if node.target is torch.ops.aten.slice.Tensor and not LOWERS_ANY_SLICE and env is not None:
            for size in _open_sizes(node, env):
                return (
                    f"{node.name} cuts a dimension of size {size}: "
                    "give it bounds, as Dim(..., min=2, max=4096), "
                    "or capture with torch 2.13, which lowers slices of any size"
                )
        if _is_open_sum(node):
            return (
                f"{node.name} sums a tensor whose size is known at run time only, for which Inductor cannot "
                "select an implementation: leave torch._inductor.config._collective.auto_select off"
            )
    return ""


def _is_open_sum(node: fx.Node) -> bool:
    """Returns whether Inductor compares a symbolic size of an all-reduce with its limit for symmetric
    memory."""
    if not inductor_config._collective.auto_select or str(node.target) not in _SUMS:
        return False
    summed: Any = node.args[0]  # Any: a node, whose value is fake
    return isinstance(summed.meta["val"].numel(), torch.SymInt)


def _open_sizes(node: fx.Node, env: ShapeEnv) -> Iterator[object]:
    """Yields the sizes of a slice's input that have no bounds."""
    source: Any = node.args[0]  # Any: a node, whose value is fake
    sizes: Sequence[object] = source.meta["val"].shape
    for size in sizes:
        if isinstance(size, torch.SymInt) and any(
            None in symbol_range(env, s) for s in size.node.expr.free_symbols
        ):
            yield size


def _calls(gm: fx.GraphModule) -> Iterator[fx.Node]:
    return (node for node in nested_nodes(gm) if node.op == "call_function")


def _sequence(x: Any) -> tuple[object, ...]:  # Any: arguments and values of any kind
    return tuple(x) if isinstance(x, list | tuple) else ()


def _is_tensor(x: object) -> bool:
    return isinstance(x, fx.Node) and isinstance(x.meta.get("val"), torch.Tensor)

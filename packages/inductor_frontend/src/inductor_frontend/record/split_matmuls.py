"""Splits matmuls with few rows along the summed dimension: a batched matmul of the parts, and their sum.

    addmm(bias, a, b)   ->   parts = bmm(a as [parts, rows, length], b as [parts, length, columns])
                             parts[0] + parts[1] + ... + bias

Operands become views of the original operands. The sum is written as additions, which Inductor inlines into
the kernels that use it. A matmul stays whole unless a generated kernel uses it, since a kernel for the
addition alone would be an additional launch. The pass runs after Inductor's own passes and the user's
(`post_grad_custom_post_pass`): they see whole matmuls, and matmuls that Inductor's patterns fold stay folded.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Sequence

import torch
from torch._inductor import config
from torch._inductor.lowering import fallbacks, lowerings
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import Argument, map_arg

from inductor_frontend.record.split_rule import LEAST_ROWS, MOST_ROWS, MatmulDecision, MatmulSizes, parts_of
from wrapper_ir_torch.graph_modules import graph_modules

_LOG = logging.getLogger(__name__)
_ATEN = torch.ops.aten
_MATMULS = (_ATEN.mm.default, _ATEN.addmm.default)
_OF_VALUES = ("eager_input_vals", "tensor_meta", "unbacked_bindings", "val")
"""Metadata that describes the node's own value. The other keys describe its source, and apply to its
replacement too."""


def multiprocessors_of(device: torch.device) -> int | None:
    """Returns the number of multiprocessors of a GPU, present or emulated (`devices.absent_gpu`); None for
    other devices."""
    if device.type != "cuda":
        return None
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def split_matmuls(
    gm: GraphModule, multiprocessors: Callable[[torch.device], int | None] = multiprocessors_of
) -> tuple[MatmulDecision, ...]:
    """Splits the matmuls of a graph and its subgraphs for which that is profitable (`split_rule`).

    Returns a decision for each matmul, in order. Nodes must have fake values (`meta["val"]`); new nodes get
    theirs.
    """
    decisions: list[MatmulDecision] = []
    for module in graph_modules(gm):
        decisions += _split_graph(module, multiprocessors)
    for decision in decisions:
        _LOG.debug("matmul %s %s: %s", decision.node, decision.sizes, decision.outcome)
    _LOG.info("%d of %d matmuls are split", sum(decision.parts > 1 for decision in decisions), len(decisions))
    return tuple(decisions)


def _split_graph(
    gm: GraphModule, multiprocessors: Callable[[torch.device], int | None]
) -> list[MatmulDecision]:
    decisions: list[MatmulDecision] = []
    # In reverse: a matmul is fused with the sum of a split matmul that it is added to.
    for node in reversed(gm.graph.nodes):
        if node.op == "call_function" and node.target in _MATMULS:
            decision = _decision(node, multiprocessors)
            decisions.append(decision)
            if decision.parts > 1:
                _split(node, decision.parts)
    if any(decision.parts > 1 for decision in decisions):
        gm.recompile()
    return decisions[::-1]


def _decision(node: Node, multiprocessors: Callable[[torch.device], int | None]) -> MatmulDecision:
    a, b = (x.meta["val"] for x in _operands(node))
    (rows, summed), columns = a.shape, b.shape[1]
    sizes = f"[{rows}, {summed}] x [{summed}, {columns}]"
    if not all(isinstance(n, int) for n in (rows, summed, columns)):
        return MatmulDecision(node.name, sizes, why="a size is symbolic")
    matmul = MatmulSizes(rows, summed, columns)
    processors = multiprocessors(a.device)
    why = ""
    if processors is None:
        why = f"on {a.device.type}, not on a GPU"
    elif config.triton.native_matmul:
        why = "a kernel of Inductor's (triton.native_matmul)"
    elif a.dtype is not torch.float32:
        # A batched matmul rounds each part to the dtype of its operands; one matmul of float16 does not.
        why = f"elements are {str(a.dtype).removeprefix('torch.')}, not float32"
    elif any(factor != 1 for factor in node.kwargs.values()):
        why = "it has factors alpha or beta"
    elif rows > MOST_ROWS:
        why = f"{rows} rows, more than {MOST_ROWS}"
    elif rows < LEAST_ROWS:
        why = f"{rows} rows, fewer than {LEAST_ROWS}"
    elif (parts := parts_of(matmul, processors)) == 1:
        why = (
            f"no two parts are long enough and fit {processors} multiprocessors with {matmul.blocks} block(s)"
        )
    elif not _is_inlined(node):
        why = "no generated kernel uses it, which the sum could be part of"
    else:
        return MatmulDecision(node.name, sizes, parts)
    return MatmulDecision(node.name, sizes, why=why)


def _operands(node: Node) -> list[Node]:
    """Returns the two matrices, which follow an optional bias."""
    return [x for x in node.args[-2:] if isinstance(x, Node)]


def _is_inlined(node: Node) -> bool:
    """Returns whether a generated kernel uses this value, or a view of it."""
    return any(
        _is_generated(user.target) or (_is_view(user.target) and _is_inlined(user)) for user in node.users
    )


def _is_view(target: object) -> bool:
    return target is operator.getitem or (isinstance(target, OpOverload) and target.is_view)


def _is_generated(target: object) -> bool:
    """Returns whether Inductor generates loops for calls of this operator.

    Other operators are library calls, or have a template or a collective whose lowering is in another module.
    """
    if not isinstance(target, OpOverload) or target.is_view or target in fallbacks:
        return False
    lowering = lowerings.get(target)
    return lowering is not None and lowering.__module__ == "torch._inductor.lowering"


def _split(node: Node, parts: int) -> None:
    """Replaces a matmul by the sum of a batched matmul."""
    a, b = _operands(node)
    rows, summed = a.meta["val"].shape
    columns, length = b.meta["val"].shape[1], summed // parts
    with node.graph.inserting_before(node):
        tall = _call(node, "rows", _ATEN.reshape.default, a, [rows, parts, length])
        lhs = _call(node, "left", _ATEN.permute.default, tall, [1, 0, 2])
        rhs = _call(node, "right", _ATEN.reshape.default, b, [parts, length, columns])
        batched = _call(node, "parts", _ATEN.bmm.default, lhs, rhs)
        terms = [_call(node, f"part{i}", _ATEN.select.int, batched, 0, i) for i in range(parts)]
        total = _sum(node, terms)
        if len(node.args) > 2:
            total = _call(node, "biased", _ATEN.add.Tensor, total, node.args[0])
    node.replace_all_uses_with(total)
    node.graph.erase_node(node)


def _sum(node: Node, terms: Sequence[Node]) -> Node:
    """Returns the sum as a balanced tree of minimal depth."""
    if len(terms) == 1:
        return terms[0]
    middle = (len(terms) + 1) // 2
    return _call(node, "sum", _ATEN.add.Tensor, _sum(node, terms[:middle]), _sum(node, terms[middle:]))


def _call(node: Node, name: str, target: OpOverload, *args: Argument) -> Node:
    """Inserts a call in place of `node`, with its provenance and a new fake value."""
    call = node.graph.create_node("call_function", target, args, name=f"{node.name}_{name}")
    call.meta = {key: value for key, value in node.meta.items() if key not in _OF_VALUES}
    with node.meta["val"].fake_mode:
        call.meta["val"] = target(*map_arg(args, lambda x: x.meta["val"]))
    return call

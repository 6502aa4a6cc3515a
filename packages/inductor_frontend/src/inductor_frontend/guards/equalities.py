"""Numbers read from tensors that a model checks to equal a size: torch then takes the size, and forgets the check.

Dynamo's graph still asserts that they are the same; autograd's trace of it compares the size with itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from inductor_frontend.guards.checks import said
from inductor_frontend.torch_patches._compat import detect_shape_env


def keep_equalities(gm: fx.GraphModule) -> None:
    """Adds, to a graph of Dynamo's, an assertion about the tensor itself for each number that was replaced."""
    values = [n.meta.get("example_value") for n in gm.graph.nodes]
    env = detect_shape_env(values)
    changed = False
    for node in [] if env is None else list(gm.graph.nodes):
        # A number that was replaced by a constant is left with a range that says so.
        bound = {
            symbol: path for symbol, path in (node.meta.get("unbacked_bindings") or {}).items() if path == ()
        }
        found = [env.replacements.get(symbol) for symbol in bound]
        if node.target == "item" and any(x is not None and x.free_symbols for x in found):
            _assert_same(gm.graph, node)
            changed = True
    if changed:
        gm.recompile()


def _assert_same(graph: fx.Graph, item: fx.Node) -> None:
    tensor = item.args[0]
    with graph.inserting_after(item):
        # Where this is traced again, the number is what has replaced it.
        same = graph.call_function(torch.ops.aten.eq.Scalar, (tensor, item))
    with graph.inserting_after(same):
        all_same = graph.call_function(torch.ops.aten.all.default, (same,))
    with graph.inserting_after(all_same):
        message = _message(item) or f"{item.name} is not the size that it was checked to be"
        check = graph.call_function(torch.ops.aten._assert_async.msg, (all_same, message))
    for new in (same, all_same, check):
        new.meta["stack_trace"] = item.meta.get("stack_trace", "")


def _message(item: fx.Node) -> str:
    """The author's words for an equality of this number that is True by now."""
    for condition in item.users:
        value: Any = condition.meta.get("example_value")  # Any: constants and symbolic bools
        constant = isinstance(value, torch.SymBool) and value.node.expr == True  # noqa: E712 - sympy's
        for check in condition.users:
            if check.target is torch.ops.aten._assert_scalar.default and (constant or value is True):
                words = said(str(check.args[1]))
                if words:
                    return words
    return ""

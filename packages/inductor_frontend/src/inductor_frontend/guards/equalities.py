"""Assertions that a number read from a tensor equals a size.

torch replaces the number by the size and drops the assertion. Dynamo's graph still contains it, but
autograd's trace of that graph compares the size with itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from inductor_frontend.guards.checks import said
from inductor_frontend.torch_patches._compat import detect_shape_env


def keep_equalities(gm: fx.GraphModule) -> None:
    """Adds to a Dynamo graph an assertion on the tensor itself for each number that was replaced."""
    values = [n.meta.get("example_value") for n in gm.graph.nodes]
    env = detect_shape_env(values)
    changed = False
    if env is None:
        return
    for node in list(gm.graph.nodes):
        # A number that was replaced by a constant keeps a range with that constant.
        bound = {
            symbol: path for symbol, path in (node.meta.get("unbacked_bindings") or {}).items() if path == ()
        }
        replacements = [env.replacements.get(symbol) for symbol in bound]
        if node.target == "item" and any(x is not None and x.free_symbols for x in replacements):
            _assert_same(gm.graph, node)
            changed = True
    if changed:
        gm.recompile()


def _assert_same(graph: fx.Graph, item: fx.Node) -> None:
    tensor = item.args[0]
    with graph.inserting_after(item):
        # When this is traced again, the replacement is used for the number.
        same = graph.call_function(torch.ops.aten.eq.Scalar, (tensor, item))
    with graph.inserting_after(same):
        all_same = graph.call_function(torch.ops.aten.all.default, (same,))
    with graph.inserting_after(all_same):
        message = _message(item) or f"{item.name} is not the size that it was checked to be"
        check = graph.call_function(torch.ops.aten._assert_async.msg, (all_same, message))
    for new in (same, all_same, check):
        new.meta["stack_trace"] = item.meta.get("stack_trace", "")


def _message(item: fx.Node) -> str:
    """Returns the author's message of an equality of this number that torch has simplified to True."""
    for condition in item.users:
        value: Any = condition.meta.get("example_value")  # Any: constants and symbolic bools
        constant = isinstance(value, torch.SymBool) and value.node.expr == True  # noqa: E712 - sympy's
        for check in condition.users:
            if check.target is torch.ops.aten._assert_scalar.default and (constant or value is True):
                words = said(str(check.args[1]))
                if words:
                    return words
    return ""

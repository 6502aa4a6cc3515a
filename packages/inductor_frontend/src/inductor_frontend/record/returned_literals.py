"""Copies literals that a graph returns, so that each caller receives a separate storage."""

from __future__ import annotations

import torch
from torch import fx

from inductor_frontend.functionalize.views import root_of

_LIFT = torch.ops.aten.lift_fresh_copy.default


def copy_returned_literals(gm: fx.GraphModule) -> None:
    """Copies attributes that are returned, directly or as views: Inductor's passes remove operators that
    change nothing."""
    for root in {root_of(n): None for n in gm.graph.output_node().all_input_nodes}:
        if root.op == "get_attr" and isinstance(root.meta.get("val"), torch.Tensor):
            with gm.graph.inserting_after(root):
                copy = gm.graph.call_function(_LIFT, (root,))
            copy.meta = dict(root.meta)
            root.replace_all_uses_with(copy, lambda n, copy=copy: n is not copy)  # type: ignore[misc]

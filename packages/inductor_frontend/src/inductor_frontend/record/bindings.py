"""Restores bindings of unbacked symbols in subgraphs: Inductor drops them when it traces subgraphs again."""

from __future__ import annotations

import sympy
import torch
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import (
    _free_unbacked_symbols_with_path,
    free_symbols,
    free_unbacked_symbols,
)

_SYMBOLIC = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, list, tuple)


def bind_unbacked(gm: GraphModule) -> None:
    """Sets on each node the unbacked symbols that its value introduces, with their key paths in the value."""
    bound: set[sympy.Symbol] = set()
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, _SYMBOLIC):
            continue
        if node.op == "placeholder":
            bound |= free_symbols(value)
            continue
        new = set(free_unbacked_symbols(value)) - bound
        if new and not node.meta.get("unbacked_bindings"):
            bindings = _free_unbacked_symbols_with_path(value, (), pending=set(new))
            if bindings:
                node.meta["unbacked_bindings"] = bindings
        bound |= new

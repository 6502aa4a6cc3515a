"""Runs FX graphs node by node, and compares each node's fake value with its result."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from torch import SymBool, SymFloat, SymInt, Tensor, fx

Symbolic = SymInt | SymFloat | SymBool


class Recorder(fx.Interpreter):
    """Compares each node's fake value with its result: layouts, devices and numbers, as far as their symbols
    are known.

    Every tensor and number must have a fake value.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.symbols: dict[Any, Any] = {}
        self.checked: list[str] = []

    def run_node(self, n: fx.Node) -> Any:  # Any: results of nodes
        got = super().run_node(n)
        if n.op != "output":
            assert n.meta["val"] is not None or not isinstance(got, Tensor | bool | int | float), n
            self.compare(n, n.meta["val"], got)
        return got

    def compare(self, node: fx.Node, val: Any, got: Any) -> None:
        """Compares one value, or several in structure."""
        if isinstance(val, Tensor):
            assert isinstance(got, Tensor), node
            assert (val.dtype, val.device, val.dim()) == (got.dtype, got.device, got.dim()), node
            whole = got.numel() > 0  # else strides are free, as are those of sizes of 1
            said = [*val.shape, *(s for n, s in zip(got.shape, val.stride()) if whole and n > 1)]
            real = [*got.shape, *(s for n, s in zip(got.shape, got.stride()) if whole and n > 1)]
            for number, seen in zip(said, real, strict=True):
                self.number(node, number, seen)
        elif isinstance(val, list | tuple) and isinstance(got, list | tuple):
            assert len(val) <= len(got) if isinstance(val, list) else len(val) == len(got), node
            for one, other in zip(val, got):  # some elements of a list may be unused
                self.compare(node, one, other)
        elif isinstance(val, bool | int | float | Symbolic):
            self.number(node, val, got)

    def number(self, node: fx.Node, val: Any, got: Any) -> None:
        """A symbol has the value of its first appearance from then on."""
        if not isinstance(val, Symbolic):
            assert val == got, node
            return
        expr = val.node.expr
        if expr.is_Symbol and expr not in self.symbols:
            self.symbols[expr] = sympy.sympify(got)
        known = expr.xreplace(self.symbols)
        if not known.free_symbols:
            self.checked.append(node.name)
            assert type(got)(known) == pytest.approx(got), node

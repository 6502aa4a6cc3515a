"""Types of the targets, arguments and values of graph nodes, and the graphs of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx

Argument: TypeAlias = fx.node.Argument
"""An argument of a node: nodes and constants, in tuples, lists and dictionaries."""
Target: TypeAlias = Callable[..., object]
"""A function that nodes call."""
Boxed: TypeAlias = Callable[[list[Any]], tuple[Any, ...]]
"""A function of flat arguments in a list, which it empties. Any: tensors and numbers."""
Symbolic: TypeAlias = torch.SymInt | torch.SymFloat | torch.SymBool
Number: TypeAlias = bool | int | float | Symbolic
Value: TypeAlias = Tensor | Number
"""A tensor or a number, as graphs pass between functions."""


def fake_of(argument: Argument) -> Any:  # Any: what the node returns, in nested containers
    """Returns the fake value of a node; a constant is its own."""
    return argument.meta["val"] if isinstance(argument, fx.Node) else argument

"""Refuses exported programs whose trace took a custom operator's result for one of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from inductor_frontend.errors import CaptureError
from inductor_frontend.export.fresh_fakes import fresh_returns, shared_results
from wrapper_ir_torch.graph_modules import nested_nodes

# Any in this file: values of nodes.

_CALLERS: Mapping[str, int] = MappingProxyType(
    {"auto_functionalized": 0, "auto_functionalized_v2": 0, "with_effects": 1}
)
"""Higher-order operators of decomposed programs that call an operator, and the position of that argument."""


def refuse_mixed_up(model: object) -> None:
    """Raises CaptureError FE110 for exported programs whose fake kernels return an argument, or one tensor
    twice.

    The trace contains one of the two tensors wherever the model used the other. Call this outside of
    `fresh_fakes`.
    """
    for node in nested_nodes(model.graph_module) if isinstance(model, ExportedProgram) else ():
        operator = _operator(node)
        if node.users and operator is not None and _is_mixed_up(node, operator):
            raise CaptureError(
                "FE110",
                f"the fake kernel of {operator} returns an argument, or one tensor twice, which its "
                f"schema declares as new: the exported program may use one instead of the "
                f"other{_place(node)}",
                hint="return torch.empty_like(x) from the fake kernel and export again, or capture the model",
            )


def _operator(node: fx.Node) -> OpOverload | None:
    """Returns the custom operator that a node calls, directly or through `_CALLERS`, if it declares new
    results."""
    position = _CALLERS.get(str(node.target))
    operator = node.target if position is None else node.args[position]
    return operator if isinstance(operator, OpOverload) and fresh_returns(operator) else None


def _is_mixed_up(node: fx.Node, operator: OpOverload) -> bool:
    operands = fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    for result in (node.meta.get("val"), _again(node, operands)):
        if result is None:
            continue
        direct = node.target is operator
        new = shared_results(operator, result, operands) if direct else pytree.tree_leaves(result)
        leaves = pytree.tree_leaves((operands, result))
        if any(isinstance(x, torch.Tensor) and sum(y is x for y in leaves) > 1 for x in new):
            return True
    return False


def _again(node: fx.Node, operands: Any) -> object:
    """Calls the node on its fake tensors: a loaded program has lost their identities. None if the kernel
    fails."""
    fake_mode = detect_fake_mode(pytree.tree_leaves(operands))
    if fake_mode is None or fake_mode.shape_env is None or not callable(node.target):
        return None
    args, kwargs = operands
    env = fake_mode.shape_env
    try:
        with fake_mode, env.suppress_guards(), env.ignore_fresh_unbacked_symbols():
            return node.target(*args, **kwargs)
    except Exception:  # the kernel's own
        return None


def _place(node: fx.Node) -> str:
    """Returns the node's name, and the innermost source line that torch.export recorded."""
    lines = [
        line.strip() for line in (node.stack_trace or "").splitlines() if line.strip().startswith("File ")
    ]
    return f"\n  at node {node.name}" + (f", {lines[-1]}" if lines else "")

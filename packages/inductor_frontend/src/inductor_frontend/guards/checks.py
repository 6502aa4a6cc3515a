"""What the model itself checks with `torch._check` and its kin: conditions, the author's messages, the places.

Torch keeps the conditions (as guards, ranges and deferred assertions) but neither the messages nor the places.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import MESSAGES

_TORCHS_OWN = "Runtime assertion failed for expression"
_TORCH_DIR = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """One check: its condition over symbols, the author's message ('' for none), and a stack trace of its place."""

    condition: sympy.Basic
    message: str
    place: str


@contextmanager
def recorded_checks() -> Iterator[list[ModelCheck]]:
    """The checks that are traced in this block, in their order.

    While the context is active, `torch._check_with`, which all of `torch._check...` call, is wrapped: the message is an argument
    that it drops where the condition is symbolic. The original is always called. Checks of floats also become nodes
    of the graph: torch keeps the graph alive for checks of ints alone.
    """
    checks: list[ModelCheck] = []
    original = MESSAGES.own()

    def check_with(
        error_type: type[Exception], cond: bool | torch.SymBool, message: Callable[[], str] | None
    ) -> None:
        if isinstance(cond, torch.SymBool):
            checks.append(ModelCheck(cond.node.expr, _text(cond, message), _caller()))
        original(error_type, cond, message)
        if isinstance(cond, torch.SymBool) and _on_floats(cond):
            torch.ops.aten._assert_scalar.default(cond, checks[-1].message)

    with replaced(MESSAGES.by(_check_with=check_with)):
        yield checks


def graph_checks(gm: fx.GraphModule) -> list[ModelCheck]:
    """The checks that Dynamo wrote into a graph with the author's words."""
    checks: list[ModelCheck] = []
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default):
        condition, message = node.args
        expr = _condition(condition) if isinstance(condition, fx.Node) else None
        if expr is not None and said(str(message)):
            checks.append(ModelCheck(expr, str(message), node.meta.get("stack_trace") or ""))
    return checks


def _condition(node: fx.Node) -> sympy.Basic | None:
    """What a node of a graph asserts; of an equality that torch takes for granted by now, what it was."""
    value = node.meta.get("val", node.meta.get("example_value"))
    if isinstance(value, torch.SymBool) and value.node.expr.free_symbols:
        found: sympy.Basic = value.node.expr
        return found
    if node.target is operator.eq:
        return sympy.Eq(*map(_side, node.args))
    return None


def _side(arg: Any) -> Any:  # Any: nodes and numbers; sympy expressions
    if not isinstance(arg, fx.Node):
        return arg
    for symbol, path in (arg.meta.get("unbacked_bindings") or {}).items():
        if path == ():
            return symbol
    value = arg.meta.get("val", arg.meta.get("example_value"))
    return value.node.expr if isinstance(value, torch.SymInt) else value


def said(message: str) -> str:
    """A message, if it is the author's; '' for one that torch made up."""
    return "" if message.startswith(_TORCHS_OWN) else message


def _on_floats(cond: torch.SymBool) -> bool:
    """Whether a condition is about floats that only run time knows."""
    return any(symbol_is_type(s, SymT.UNBACKED_FLOAT) for s in cond.node.expr.free_symbols)


def _text(cond: torch.SymBool, message: Callable[[], str] | None) -> str:
    """The author's message; formatting a size in it must not fix that size."""
    if message is None:
        return ""
    try:
        with cond.node.shape_env.suppress_guards():
            return str(message())
    except Exception:  # the author's code, which may well need the numbers that only run time knows
        return ""


def _caller() -> str:
    """The innermost frame outside torch and this file."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith(_TORCH_DIR) and frame.f_back is not None:
        frame = frame.f_back
    return f'File "{frame.f_code.co_filename}", line {frame.f_lineno}'

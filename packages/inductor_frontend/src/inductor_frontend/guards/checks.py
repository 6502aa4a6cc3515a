"""The model's assertions by `torch._check` and related functions: conditions, messages and places.

torch keeps the conditions, as guards, ranges and deferred assertions, but neither the messages nor the
places.
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
_TRACERS = tuple(
    os.path.join(os.path.abspath(folder), "")
    for folder in (os.path.dirname(torch.__file__), os.path.join(os.path.dirname(__file__), os.pardir))
)


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """One assertion: its condition over symbols, the author's message ('' if none), and a stack trace of its
    place."""

    condition: sympy.Basic
    message: str
    place: str


@contextmanager
def recorded_checks() -> Iterator[list[ModelCheck]]:
    """Yields the list of assertions that are traced in this block, in order.

    `torch._check_with`, which all `torch._check...` functions call, is wrapped: it drops the message of a
    symbolic condition. The original is always called. Assertions on floats also become nodes of the graph,
    since torch preserves only those on ints.
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
    """Returns the assertions in a Dynamo graph that have the author's message."""
    checks: list[ModelCheck] = []
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default):
        condition, message = node.args
        expr = _condition(condition) if isinstance(condition, fx.Node) else None
        if expr is not None and said(str(message)):
            checks.append(ModelCheck(expr, str(message), node.meta.get("stack_trace") or ""))
    return checks


def _condition(node: fx.Node) -> sympy.Basic | None:
    """Returns the condition that a node asserts; for an equality that torch has simplified, the original
    one."""
    value = node.meta.get("val", node.meta.get("example_value"))
    if isinstance(value, torch.SymBool) and value.node.expr.free_symbols:
        condition: sympy.Basic = value.node.expr
        return condition
    if node.target is operator.eq:
        return sympy.Eq(*map(_side, node.args))
    return None


def _side(arg: Any) -> object:  # Any: nodes and numbers; sympy expressions
    if not isinstance(arg, fx.Node):
        return arg
    for symbol, path in (arg.meta.get("unbacked_bindings") or {}).items():
        if path == ():
            return symbol
    value = arg.meta.get("val", arg.meta.get("example_value"))
    return value.node.expr if isinstance(value, torch.SymInt) else value


def said(message: str) -> str:
    """Returns a message of the author; '' for one that torch generated."""
    return "" if message.startswith(_TORCHS_OWN) else message


def _on_floats(cond: torch.SymBool) -> bool:
    """Returns whether a condition depends on floats that are known only at run time."""
    return any(symbol_is_type(s, SymT.UNBACKED_FLOAT) for s in cond.node.expr.free_symbols)


def _text(cond: torch.SymBool, message: Callable[[], str] | None) -> str:
    """Returns the author's message; formatting a size in it must not specialize that size."""
    if message is None:
        return ""
    try:
        with cond.node.shape_env.suppress_guards():
            return str(message())
    except Exception:  # the author's code, which may need numbers that are known only at run time
        return ""


def _caller() -> str:
    """Returns the location of the innermost frame outside torch and this package."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith(_TRACERS) and frame.f_back is not None:
        frame = frame.f_back
    return f'File "{frame.f_code.co_filename}", line {frame.f_lineno}'

"""Run-time checks, and what is for readers."""

from __future__ import annotations

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from wrapper_ir.ops import AssertExpr, AssertFinite, AssertLayout, Comment, DebugValue
from wrapper_ir.types import TensorType

__all__ = ["assert_expr", "assert_finite", "assert_layout", "comment", "debug_value"]


def assert_layout(op: AssertLayout, scope: FunctionScope) -> None:
    """Constants have the layout that they were loaded with."""
    if not scope.program.options.assertions or op.tensor in scope.program.constants:
        return
    sizes, strides = scope.numbers(op.sizes), scope.numbers(op.strides)
    name = f"%{op.tensor.name}" + (f", {op.message}" if op.message else "")
    args = (scope.value(op.tensor), list(sizes), list(strides), op.alignment, name)
    scope.call(targets.assert_layout, *args)


def assert_expr(op: AssertExpr, scope: FunctionScope) -> None:
    """The condition is computed by nodes of its own."""
    if scope.program.options.assertions:
        scope.call(targets.assert_expr, scope.number(op.condition), op.message, str(op.condition))


def assert_finite(op: AssertFinite, scope: FunctionScope) -> None:
    """Integers pass without being looked at."""
    type = op.tensor.type
    if not scope.program.options.assertions or not isinstance(type, TensorType):
        return
    if type.dtype.is_floating or type.dtype.is_complex:
        scope.call(targets.assert_finite, scope.value(op.tensor), f"%{op.tensor.name}", op.message)


def comment(op: Comment, scope: FunctionScope) -> None:
    """A node that does nothing."""
    scope.call(targets.comment, op.text)


def debug_value(op: DebugValue, scope: FunctionScope) -> None:
    """A node for every value."""
    for value in op.values:
        dtype = value.type.dtype.value if isinstance(value.type, TensorType) else ""
        scope.call(targets.debug_value, scope.value(value), value.name, op.mode.value, op.label, dtype)

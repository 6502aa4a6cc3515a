"""Writes symbols, run-time checks, events and what is for readers only."""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import quoted
from wrapper_ir.layout import is_contiguous
from wrapper_ir.ops import (
    AssertExpr,
    AssertFinite,
    AssertLayout,
    Comment,
    DebugValue,
    Define,
)
from wrapper_ir.types import TensorType

__all__ = [
    "assert_expr",
    "assert_finite",
    "assert_layout",
    "comment",
    "debug_value",
    "define",
]


def define(op: Define, scope: FunctionScope) -> None:
    """A symbol is a Python number, computed once."""
    text = scope.expr(op.expr)
    scope.out.line(f"{scope.define(op.symbol)} = {text}")


def assert_layout(op: AssertLayout, scope: FunctionScope) -> None:
    """Sizes and strides are checked in C; constants have the layout that they were loaded with."""
    if scope.module.global_name(scope.function, op.tensor):
        return
    name = scope.name(op.tensor)
    check = scope.module.helper(Helper.ASSERT_LAYOUT)
    scope.module.runtime("fail_layout")
    args = [name, scope.shape(op.sizes), scope.shape(op.strides)]
    if op.message:
        args.append(quoted(op.message))
    if is_contiguous(op.sizes, op.strides):
        # Half the cost of the checking function, which then only has to say what is wrong.
        with scope.out.block(f"if {name}.shape != {args[1]} or not {name}.is_contiguous():"):
            scope.out.items(f"{check}(", args, ")")
    else:
        scope.out.items(f"{check}(", args, ")")
    if op.alignment:
        with scope.out.block(f"if {name}.data_ptr() % {op.alignment}:"):
            fail = scope.module.runtime("fail_layout")
            note = f"{name} is not aligned to {op.alignment} bytes" + (
                f" ({op.message})" if op.message else ""
            )
            scope.out.line(f"{fail}({quoted(note)})")


def assert_expr(op: AssertExpr, scope: FunctionScope) -> None:
    """Not an `assert` statement, which `python -O` leaves out."""
    with scope.out.block(f"if not ({scope.expr(op.condition)}):"):
        fail = scope.module.runtime("fail_assertion")
        scope.out.line(f"{fail}({quoted(op.message)}, {quoted(str(op.condition))})")


def assert_finite(op: AssertFinite, scope: FunctionScope) -> None:
    """Integers pass without being looked at."""
    type = op.tensor.type
    if isinstance(type, TensorType) and not (type.dtype.is_floating or type.dtype.is_complex):
        return
    scope.module.runtime("fail_finite")
    check = scope.module.helper(Helper.FINITE)
    scope.out.line(f"{check}({scope.name(op.tensor)}, {quoted(op.tensor.name)}, {quoted(op.message)})")


def comment(op: Comment, scope: FunctionScope) -> None:
    """A comment."""
    scope.out.comment(op.text)


def debug_value(op: DebugValue, scope: FunctionScope) -> None:
    """Values are shown by the runtime."""
    show = scope.module.runtime("debug_value")
    for value in op.values:
        dtype = f", {quoted(value.type.dtype.value)}" if isinstance(value.type, TensorType) else ""
        scope.out.line(
            f"{show}({quoted(value.name)}, {scope.name(value)}, {quoted(op.mode.value)}, {quoted(op.label)}{dtype})"
        )

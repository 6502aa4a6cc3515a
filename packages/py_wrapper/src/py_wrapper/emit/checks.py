"""Writes symbols, run-time checks, events and what is for readers only."""

from __future__ import annotations

from collections.abc import Sequence

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from wrapper_ir.expr import Expr
from wrapper_ir.layout import is_contiguous
from wrapper_ir.ops import (
    AssertExpr,
    AssertFinite,
    AssertLayout,
    Comment,
    DebugValue,
    Define,
)
from wrapper_ir.ops.check import asserted_layouts
from wrapper_ir.quoting import python_string
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = [
    "assert_expr",
    "assert_finite",
    "assert_layout",
    "check_layouts",
    "comment",
    "debug_value",
    "define",
]


def define(op: Define, scope: FunctionScope) -> None:
    """A symbol is a Python number, computed once."""
    text = scope.int64(op.expr)
    scope.out.line(f"{scope.define(op.symbol)} = {text}")


def assert_layout(op: AssertLayout, scope: FunctionScope) -> None:
    """Sizes and strides are checked in C; constants have the layout that they were loaded with."""
    is_main = scope.function is scope.module.program.main
    for tensor, sizes, strides in asserted_layouts(op):
        is_covered = is_main and (scope.position, tensor) in scope.module.checks.covered
        if not (is_covered or scope.module.global_name(scope.function, tensor)):
            _check_layout(tensor, sizes, strides, op.message, scope)
    for tensor in op.tensors if op.alignment else ():
        _check_alignment(tensor, op, scope)


def _check_alignment(tensor: Value, op: AssertLayout, scope: FunctionScope) -> None:
    name = scope.name(tensor)
    with scope.out.block(f"if {name}.data_ptr() % {op.alignment}:"):
        fail = scope.module.runtime("fail_layout")
        note = f"{name} is not aligned to {op.alignment} bytes" + (f" ({op.message})" if op.message else "")
        scope.out.line(f"{fail}({python_string(note)})")


def check_layouts(position: int, scope: FunctionScope) -> None:
    """The layouts of parameters, where the op at `position` of `main` defines the last symbol that they mention."""
    if scope.function is not scope.module.program.main:
        return
    for value in scope.module.checks.layouts.get(position, ()):
        if isinstance(value.type, TensorType):
            _check_layout(value, value.type.sizes, value.type.strides, f"argument {value.name}", scope)


def _check_layout(
    value: Value, sizes: Sequence[Expr], strides: Sequence[Expr], message: str, scope: FunctionScope
) -> None:
    name = scope.name(value)
    check = scope.module.helper(Helper.ASSERT_LAYOUT)
    scope.module.runtime("fail_layout")
    args = [name, scope.shape(sizes), scope.shape(strides)]
    if message:
        args.append(python_string(message))
    if is_contiguous(sizes, strides):
        # Half the cost of the checking function, which then only has to say what is wrong.
        with scope.out.block(f"if {name}.shape != {args[1]} or not {name}.is_contiguous():"):
            scope.out.items(f"{check}(", args, ")")
    else:
        scope.out.items(f"{check}(", args, ")")


def assert_expr(op: AssertExpr, scope: FunctionScope) -> None:
    """Not an `assert` statement, which `python -O` leaves out."""
    with scope.out.block(f"if not ({scope.expr(op.condition)}):"):
        fail = scope.module.runtime("fail_assertion")
        scope.out.line(f"{fail}({python_string(op.message)}, {python_string(str(op.condition))})")


def assert_finite(op: AssertFinite, scope: FunctionScope) -> None:
    """Integers pass without being looked at."""
    type = op.tensor.type
    if not (type.dtype.is_floating or type.dtype.is_complex):
        return
    scope.module.runtime("fail_finite")
    check = scope.module.helper(Helper.FINITE)
    scope.out.line(
        f"{check}({scope.name(op.tensor)}, {python_string(op.tensor.name)}, {python_string(op.message)})"
    )


def comment(op: Comment, scope: FunctionScope) -> None:
    """A comment."""
    scope.out.comment(op.text)


def debug_value(op: DebugValue, scope: FunctionScope) -> None:
    """Values are shown by the runtime."""
    show = scope.module.runtime("debug_value")
    for value in op.values:
        args = [
            python_string(value.name),
            scope.name(value),
            python_string(op.mode.value),
            python_string(op.label),
        ]
        if isinstance(value.type, TensorType):
            args.append(python_string(value.type.dtype.value))
        if op.kernel:
            args += [f"phase={python_string(op.phase.value)}", f"kernel={python_string(op.kernel)}"]
        scope.out.line(f"{show}({', '.join(args)})")

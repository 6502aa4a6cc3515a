"""Writes comments, and calls that show or save values."""

from __future__ import annotations

from py_wrapper.emit.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.expr import Expr
from wrapper_ir.support.quoting import python_string
from wrapper_ir_lowering import steps


def comment(step: steps.Comment, scope: FunctionScope) -> None:
    scope.out.comment(step.text)


def show_line(step: steps.ShowLine, scope: FunctionScope) -> None:
    """Calls the runtime to print a line."""
    scope.out.line(f"{scope.module.runtime('show_line')}({python_string(step.text)})")


def show_value(step: steps.ShowValue, scope: FunctionScope) -> None:
    """Calls the runtime to print a value."""
    title, value = python_string(step.title), step.value
    if isinstance(value, Expr):
        text, show, kind = scope.expr(value), "show_number", value.kind.value
    elif isinstance(value.type, ir.TensorType):
        text, show, kind = scope.name(value), "show_tensor", value.type.dtype.value
    else:
        text, show, kind = scope.name(value), "show_number", value.type.kind.value
    scope.out.line(f"{scope.module.runtime(show)}({title}, {text}, {python_string(kind)})")


def save_value(step: steps.SaveValue, scope: FunctionScope) -> None:
    """Calls the runtime to save a tensor."""
    texts = (step.value.type.dtype.value, step.directory, step.name, step.metadata)
    args = ", ".join((scope.name(step.value), *map(python_string, texts)))
    scope.out.line(f"{scope.module.runtime('save_tensor')}({args})")

"""Comments and debug output."""

from __future__ import annotations

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.expr import Expr
from wrapper_ir_lowering.steps import Comment, SaveValue, ShowLine, ShowValue


def comment(step: Comment, scope: FunctionScope) -> None:
    """Adds a node without effect."""
    scope.call(targets.comment, step.text)


def show_line(step: ShowLine, scope: FunctionScope) -> None:
    scope.call(targets.show_line, step.text)


def show_value(step: ShowValue, scope: FunctionScope) -> None:
    value = step.value
    if isinstance(value, Expr):
        scope.call(targets.show_number, step.title, scope.number(value), value.kind.value)
    elif isinstance(value.type, ir.TensorType):
        scope.call(targets.show_tensor, step.title, scope.value(value), value.type.dtype.value)
    else:
        scope.call(targets.show_number, step.title, scope.value(value), value.type.kind.value)


def save_value(step: SaveValue, scope: FunctionScope) -> None:
    value = scope.value(step.value)
    scope.call(
        targets.save_tensor, value, step.value.type.dtype.value, step.directory, step.name, step.metadata
    )

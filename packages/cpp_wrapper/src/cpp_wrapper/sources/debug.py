"""Writes comments, and calls that print or save values."""

from __future__ import annotations

from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.artifact.file.safetensors import format_name
from wrapper_ir.expr import Expr, SymKind
from wrapper_ir.support.quoting import cpp_line_comment, cpp_string
from wrapper_ir_lowering import steps


def comment(step: steps.Comment, scope: FunctionScope) -> None:
    """Writes a comment."""
    scope.line(f"// {cpp_line_comment(step.text)}")


def show_line(step: steps.ShowLine, scope: FunctionScope) -> None:
    """Writes a call that prints a line."""
    scope.line(f"show_line({cpp_string(step.text)});")


def show_value(step: steps.ShowValue, scope: FunctionScope) -> None:
    """Writes a call that prints a title and a value."""
    title, value = cpp_string(step.title), step.value
    match value:
        case Expr():
            number = scope.number(value)
            text = f"Int({number})" if value.kind is SymKind.INT else number
        case ir.Value(type=ir.TensorType(dtype=dtype)):
            text = f"{scope.handle(value)}, {cpp_string(dtype.value)}"
        case ir.Value() if value in scope.numbers:
            text = scope.numbers[value]
        case _:
            raise scope.error("CPP503", f"value %{value.name} is neither a tensor nor a number")
    scope.line(f"show({title}, {text});")


def save_value(step: steps.SaveValue, scope: FunctionScope) -> None:
    """Writes a call that saves a tensor to a file."""
    dtype = step.value.type.dtype
    kind = format_name(dtype)
    texts = ", ".join(map(cpp_string, (step.directory, step.name, step.metadata, kind)))
    scope.line(f"save({scope.handle(step.value)}, {texts}, {dtype.itemsize if kind == 'U8' else 1});")

"""Writes symbols and comments."""

from __future__ import annotations

from cpp_wrapper.emit.scope import FunctionScope
from wrapper_ir.lowering import steps
from wrapper_ir.quoting import cpp_line_comment

__all__ = ["comment", "define"]


def define(step: steps.Define, scope: FunctionScope) -> None:
    """A variable. Arithmetic is checked, so the value has 64 bits."""
    text = scope.number(step.expr)
    scope.line(f"{scope.define(step.symbol, step.expr.kind)} = {text};")


def comment(step: steps.Comment, scope: FunctionScope) -> None:
    """A line for readers."""
    scope.line(f"// {cpp_line_comment(step.text)}")

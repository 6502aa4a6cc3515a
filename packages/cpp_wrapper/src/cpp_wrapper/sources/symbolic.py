"""Writes symbols."""

from __future__ import annotations

from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir_lowering import steps


def define(step: steps.Define, scope: FunctionScope) -> None:
    """Writes a variable. Arithmetic is checked, so the value has 64 bits."""
    text = scope.number(step.expr)
    scope.line(f"{scope.define(step.symbol, step.expr.kind)} = {text};")

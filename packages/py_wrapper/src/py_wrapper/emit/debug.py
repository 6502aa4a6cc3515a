"""Writes what is for readers: comments, and calls that show values."""

from __future__ import annotations

from py_wrapper.emit.scope import FunctionScope
from wrapper_ir.lowering.steps import Comment, ShowValue
from wrapper_ir.quoting import python_string
from wrapper_ir.types import TensorType

__all__ = ["comment", "show_value"]


def comment(step: Comment, scope: FunctionScope) -> None:
    """A comment."""
    scope.out.comment(step.text)


def show_value(step: ShowValue, scope: FunctionScope) -> None:
    """Values are shown by the runtime."""
    show, value = scope.module.runtime("debug_value"), step.value
    args = [
        python_string(value.name),
        scope.name(value),
        python_string(step.mode.value),
        python_string(step.label),
    ]
    if isinstance(value.type, TensorType):
        args.append(python_string(value.type.dtype.value))
    if step.kernel:
        args += [f"phase={python_string(step.phase.value)}", f"kernel={python_string(step.kernel)}"]
    scope.out.line(f"{show}({', '.join(args)})")

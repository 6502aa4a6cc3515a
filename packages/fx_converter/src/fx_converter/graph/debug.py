"""What is for readers: comments and values."""

from __future__ import annotations

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from wrapper_ir.lowering.steps import Comment, ShowValue
from wrapper_ir.types import TensorType

__all__ = ["comment", "show_value"]


def comment(step: Comment, scope: FunctionScope) -> None:
    """A node that does nothing."""
    scope.call(targets.comment, step.text)


def show_value(step: ShowValue, scope: FunctionScope) -> None:
    """A node for the value."""
    value = step.value
    dtype = value.type.dtype.value if isinstance(value.type, TensorType) else ""
    where = (step.phase.value, step.kernel) if step.kernel else ()
    args = (value.name, step.mode.value, step.label, dtype, *where)
    scope.call(targets.debug_value, scope.value(value), *args)

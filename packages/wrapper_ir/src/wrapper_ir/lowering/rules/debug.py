"""What is for readers: comments and values."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir.lowering import steps
from wrapper_ir.lowering.state import FunctionState
from wrapper_ir.lowering.steps import Step
from wrapper_ir.ops import Comment, DebugValue

__all__ = ["comment", "debug_value"]


def comment(op: Comment, state: FunctionState) -> Iterator[Step]:
    """One step."""
    yield steps.Comment(text=op.text, at=state.at)


def debug_value(op: DebugValue, state: FunctionState) -> Iterator[Step]:
    """A step for each value."""
    for value in op.values:
        yield steps.ShowValue(
            value=value, mode=op.mode, phase=op.phase, kernel=op.kernel, label=op.label, at=state.at
        )

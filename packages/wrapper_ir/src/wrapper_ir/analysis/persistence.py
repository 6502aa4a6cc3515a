"""Tells whether memory of a function may persist from call to call."""

from __future__ import annotations

from wrapper_ir.ir import ops
from wrapper_ir.ir.program import Function


def may_persist(function: Function) -> bool:
    """False if work goes to several streams, memory moves under tensors, or memory comes from pools of the caller's."""
    # stream: of ops that have one
    return not any(
        isinstance(op, ops.ResizeStorage | ops.SetStorage | ops.EnterMemoryPool) or getattr(op, "stream", 0)
        for op in function.body
    )

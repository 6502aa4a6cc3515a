"""Tells whether memory of a function may persist from call to call."""

from __future__ import annotations

from wrapper_ir import ir


def may_persist(function: ir.Function) -> bool:
    """False if work goes to several streams, memory moves under tensors, or memory comes from pools of the caller's."""
    # stream: of ops that have one
    return not any(
        isinstance(op, ir.ResizeStorage | ir.SetStorage | ir.EnterMemoryPool) or getattr(op, "stream", 0)
        for op in function.body
    )

"""Decides whether memory of a function may persist from call to call."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.streams import stream_of


def may_persist(function: ir.Function) -> bool:
    """False if several streams are used, storages of tensors change, or memory comes from a pool of the
    process."""
    return not any(isinstance(op, ir.ForeignMemory) or stream_of(op) for op in function.body)

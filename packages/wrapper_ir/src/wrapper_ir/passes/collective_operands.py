"""What a collective of one tensor is given, and why symmetric memory is nothing for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from wrapper_ir.analyses import Analyses
from wrapper_ir.expr import Int
from wrapper_ir.layout import extent_bytes, is_contiguous
from wrapper_ir.ops import Arg, CallExtern, CollectiveStart, EnterMemoryPool, ResizeStorage, SetStorage
from wrapper_ir.program import Function
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value, is_tensor

__all__ = ["Limits", "arguments_of", "operand_of", "why_not_shared"]


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Options of `lower-collectives`, as it asks about one collective; bytes of a process's part."""

    one_shot: int
    two_shot: int
    one_shot_scatter: int
    low_contention: int
    fused: int
    """Products are fused with collectives of at least so many."""
    groups: frozenset[str]
    """The groups whose processes can read each other's memory; none: all can."""


def why_not_shared(op: CollectiveStart, function: Function, analyses: Analyses, limits: Limits) -> str:
    """Why no operator over symmetric memory takes a collective's operand, nor a copy of it; '' where one may."""
    tensor = operand_of(op)
    type = tensor.type
    if limits.groups and op.group not in limits.groups:
        return f"option groups leaves group {op.group!r} out"
    if type.device.type != "cuda":
        return f"{type.device} has no symmetric memory"
    if op.stream:
        return f"it runs on stream {op.stream}"
    nbytes = extent_bytes(type)
    if not isinstance(nbytes, Int):
        return f"its size {nbytes} is known at run time only"
    if not nbytes.value:
        return f"%{tensor.name} has no bytes"
    if not is_contiguous(type.sizes, type.strides):
        return f"%{tensor.name} is not contiguous"
    if any(isinstance(other, EnterMemoryPool | ResizeStorage | SetStorage) for other in function.body):
        return "the function takes memory from pools, or moves it under tensors"
    return ""


def operand_of(op: CollectiveStart) -> Value[TensorType]:
    """The tensor that a collective of one tensor is given."""
    value = op.args[0] if op.args else dict(op.kwargs)["input"]
    assert isinstance(value, Value)
    assert is_tensor(value)
    return value


def arguments_of(op: CallExtern | CollectiveStart, analyses: Analyses) -> Mapping[str, Arg]:
    """What an operator is given, by the names of its schema."""
    info = analyses.extern_info[op.target]
    return dict(zip((a.name for a in info.schema.args), op.args)) | dict(op.kwargs)

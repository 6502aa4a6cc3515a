"""Operands of collectives, and reasons why they cannot be in symmetric or registered memory of a group."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Int, as_int


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Options of `lower-collectives` for one collective; in bytes of a process's part."""

    one_shot: int
    two_shot: int
    one_shot_scatter: int
    low_contention: int
    fused: int
    """Minimum size for fusing matmuls with collectives."""
    groups: frozenset[str]
    """The groups whose processes can read each other's memory; none: all can."""


def why_no_group_memory(
    value: ir.Value[ir.TensorType], group: str, function: ir.Function, groups: Set[str], minimum: int = 1
) -> str:
    """Returns the reason why no memory of a group can contain a tensor of one of its collectives; '' if some
    can.

    `groups` are those that an option names, none for all; `minimum` is a number of bytes.
    """
    if groups and group not in groups:
        return f"option groups leaves group {group!r} out"
    if not value.type.device.traits.has_group_memory:
        return f"%{value.name} lies on {value.type.device}, which has no memory of groups"
    extent = ir.extent_bytes(value.type)
    nbytes = as_int(extent)
    if nbytes is None:
        return f"the size of %{value.name}, {extent}, is known at run time only"
    if nbytes < minimum:
        return f"%{value.name} has {nbytes} bytes, fewer than {minimum}"
    if function.has(ir.ForeignMemory):
        return "the function takes memory from pools, or moves it under tensors"
    return ""


def why_not_shared(op: ir.CollectiveStart, function: ir.Function, limits: Limits) -> str:
    """Returns the reason why no operator over symmetric memory accepts a collective's operand or a copy of
    it; '' if one may.
    """
    tensor = operand_of(op)
    if op.stream:
        return f"it runs on stream {op.stream}"
    why = why_no_group_memory(tensor, op.group, function, limits.groups)
    if not why and not ir.is_contiguous(tensor.type.sizes, tensor.type.strides):
        return f"%{tensor.name} is not contiguous"
    return why


def why_storage_stays(allocation: ir.AllocStorage, crossing: Set[ir.Value]) -> str:
    """Returns the reason why a storage of the function cannot be memory of a group; '' if it can.

    `crossing` are the storages that several streams use.
    """
    name, kind = allocation.result.name, allocation.result.type.space.kind
    if allocation.purpose is not ir.AllocPurpose.PLAIN or allocation.zero is not ir.ZeroMode.NONE:
        return f"%{name} is a pool, or begins with zeros"
    if kind is not ir.MemoryKind.DEFAULT:
        return f"%{name} lies in {kind.value} memory"
    return f"%{name} is of another stream" if allocation.stream or allocation.result in crossing else ""


def origin_of(value: ir.Value, roots: tuple[ir.Value, ...], function: ir.Function, analyses: Analyses) -> str:
    """Describes the origin of a tensor with these roots, which the function does not allocate."""
    params = {p.value for p in function.params}
    if any(root in params for root in roots):
        return f"%{value.name} is an input"
    if any(root in analyses.constant_values for root in roots):
        return f"%{value.name} is a constant"
    return f"%{value.name} is the result of an operator, which allocates it"


def operand_of(op: ir.CollectiveStart) -> ir.Value[ir.TensorType]:
    """Returns the operand of a collective of one tensor."""
    return ir.as_tensor(op.args[0] if op.args else dict(op.kwargs)["input"])


def group_size(op: ir.CollectiveStart, analyses: Analyses) -> int | None:
    """Returns the number of processes of a collective's group; None if it is known at run time only."""
    match arguments_of(op, analyses)["group_size"]:
        case Int(size):
            return size
        case _:
            return None


def arguments_of(op: ir.OperatorCall, analyses: Analyses) -> Mapping[str, ir.Arg]:
    """Returns the arguments of an operator, by their names in its schema."""
    info = analyses.extern_info[op.target]
    return dict(zip((a.name for a in info.schema.args), op.args)) | dict(op.kwargs)

"""Storages that others may take over or replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.alignment import relied_pointers
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.expr import Int, expand, mul


def reusable_storages(function: ir.Function, analyses: Analyses) -> dict[ir.Value, ir.AllocStorage]:
    """Returns storages without initial content that are used only as tensors on one stream, with the ops that
    allocate them.

    None qualify if memory is moved under tensors, or comes from torch's pools.
    """
    if any(isinstance(op, ir.ForeignMemory) for op in function.body):
        return {}
    crossing = analyses.get_for(function, crossing_streams)
    storages: dict[ir.Value, ir.AllocStorage] = {
        op.result: op
        for op in function.ops_of(ir.AllocStorage)
        if op.purpose is ir.AllocPurpose.PLAIN
        and op.zero is ir.ZeroMode.NONE
        and not op.result.type.is_group_memory
        and op.result not in crossing
    }
    for op in function.body:
        if not isinstance(op, ir.Free) and not (isinstance(op, ir.View) and op.mode is ir.ViewMode.ALIAS):
            for value in filter(ir.is_storage, ir.operands(op)):
                storages.pop(value, None)
    return storages


def first_uses(function: ir.Function, aliasing: Aliasing) -> Mapping[ir.Value, int]:
    """Returns the position of the first op that uses each root for more than naming it."""
    positions: dict[ir.Value, int] = {}
    for position, op in enumerate(function.body):
        if not isinstance(op, ir.Allocation | ir.View | ir.EndOp):
            for value in ir.operands(op):
                for root in aliasing.roots.get(value, NO_ROOTS):
                    positions.setdefault(root, position)
    return positions


def may_take_over(new: ir.AllocStorage, old: ir.AllocStorage) -> bool:
    """Whether the first storage's tensors can be in the second one instead.

    It must have as many bytes, for all sizes, the same memory space and stream, and at least the same
    alignment.
    """
    a, b = new.result.type, old.result.type
    return (
        (a.nbytes, a.device, a.space) == (b.nbytes, b.device, b.space)
        and new.stream == old.stream
        and b.alignment % a.alignment == 0
    )


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """A tensor with a separate storage that an operator returned, or that the caller donates.

    It has the stream, and the alignment that a check guarantees.
    """

    value: ir.Value[ir.TensorType]
    stream: int
    alignment: int


def operator_results(
    function: ir.Function, analyses: Analyses, *, donated: bool = False
) -> dict[ir.Value, OperatorResult]:
    """Returns results of operators that the function surely owns and uses on one stream only, and donated
    parameters if asked.

    All bytes up to their last one must belong to them. None qualify if `reusable_storages` has none.
    """
    if any(isinstance(op, ir.ForeignMemory) for op in function.body):
        return {}
    crossing = analyses.get_for(function, crossing_streams)
    aliasing = analyses.aliasing(function)
    streams: dict[ir.Value, int] = {}
    params = function.params if donated else ()
    inputs = [p.value for p in params if ir.is_tensor(p.value) and _is_dense(p.value.type)]
    results = {v: OperatorResult(v, 0, 1) for v in inputs if v in aliasing.owned and v not in crossing}
    for op in function.body:
        if isinstance(op, ir.CallExtern | ir.Unpack) and op.result is not None:
            streams[op.result] = op.stream if isinstance(op, ir.CallExtern) else streams.get(op.source, 0)
            tensor = op.result
            if ir.is_tensor(tensor) and tensor in aliasing.owned and tensor not in crossing:
                results[tensor] = OperatorResult(tensor, streams[tensor], 1)
        elif isinstance(op, ir.AssertLayout):
            for value in op.tensors:
                if value in results and op.alignment > results[value].alignment:
                    results[value] = OperatorResult(value, results[value].stream, op.alignment)
    return {root: result for root, result in results.items() if aliasing.roots.get(root) == (root,)}


def _is_dense(type: ir.TensorType) -> bool:
    """Whether all bytes up to a tensor's last one are its own: bytes in between may belong to another
    argument.
    """
    return expand(ir.extent_bytes(type)) == expand(mul(ir.numel(type.sizes), Int(type.dtype.itemsize)))


def relied_alignment(function: ir.Function, analyses: Analyses) -> Mapping[ir.Value, int]:
    """Returns the alignment that the function relies on for each root.

    Launches rely on the alignment of their kernels' parameters, other functions on the start of storages.
    """
    relied = analyses.get(relied_pointers)
    roots = analyses.aliasing(function).roots
    alignments: dict[ir.Value, int] = {}
    for op in function.body:
        needs: dict[ir.Value, int] = {}
        if isinstance(op, ir.Launch):
            for position, param in relied.get(op.kernel, ()):
                needs.update(
                    dict.fromkeys(ir.values_in(op.args[position : position + 1], []), param.divisible)
                )
        elif isinstance(op, ir.AssertLayout):
            needs = dict.fromkeys(op.tensors, op.alignment)
        elif relied and not isinstance(op, _ANY_ADDRESS):
            needs = dict.fromkeys(ir.operands(op), ir.DEFAULT_ALIGNMENT)
        for value, bytes in needs.items():
            for root in roots.get(value, NO_ROOTS):
                alignments[root] = max(alignments.get(root, 1), bytes)
    return alignments


def may_take_over_result(new: ir.AllocStorage, old: OperatorResult, relied: Mapping[ir.Value, int]) -> bool:
    """As `may_take_over`, for results of operators; `relied` is the result of `relied_alignment`."""
    type = new.result.type
    return (type.nbytes, type.device, type.space, new.stream) == (
        ir.extent_bytes(old.value.type),
        old.value.type.device,
        ir.MemorySpace(),
        old.stream,
    ) and old.alignment % relied.get(new.result, 1) == 0


_ANY_ADDRESS = ir.AssertFinite | ir.CallExtern | ir.Copy | ir.EndOp | ir.Return | ir.Unpack | ir.View

"""Storages that others may take over or replace."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.alignment import relied_pointers
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.expr import Int, expand, mul


def reusable_storages(function: ir.Function, analyses: Analyses) -> dict[ir.Value, ir.AllocStorage]:
    """Returns storages without initial content that are used only as tensors on one stream, with the ops that
    allocate them.

    None qualify if memory is moved under tensors, or comes from torch's pools.
    """
    if function.has(ir.ForeignMemory):
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
        match op:
            case ir.Free() | ir.View(mode=ir.ViewMode.ALIAS):
                pass
            case _:
                for value in filter(ir.is_storage, ir.operands(op)):
                    storages.pop(value, None)
    return storages


def reused_roots(function: ir.Function, aliasing: Aliasing) -> set[ir.Value]:
    """Returns the roots that are reused, which ends all their names."""
    views = (op for op in function.ops_of(ir.View) if op.mode is ir.ViewMode.REUSE)
    return {root for op in views for root in aliasing.roots.get(op.source, NO_ROOTS)}


def returned_storages(function: ir.Function, live: Liveness, storages: Set[ir.Value]) -> list[ir.Value]:
    """Returns those of the storages that the function returns, each once."""
    values = ir.operands(function.returns)
    roots = dict.fromkeys(r for v in values for r in live.aliasing.roots.get(v, NO_ROOTS))
    return [r for r in roots if r in storages and r not in live.storages]


_NAMES = ir.Allocation | ir.View | ir.EndOp
"""Ops that allocate, name or end memory, and use no contents."""


def first_uses(function: ir.Function, aliasing: Aliasing) -> Mapping[ir.Value, int]:
    """Returns the position of the first op that uses each root for more than naming it."""
    positions: dict[ir.Value, int] = {}
    for position, op in enumerate(function.body):
        if not isinstance(op, _NAMES):
            for value in ir.operands(op):
                for root in aliasing.roots.get(value, NO_ROOTS):
                    positions.setdefault(root, position)
    return positions


def may_take_over(new: ir.AllocStorage, old: ir.AllocStorage) -> bool:
    """Returns whether the first storage's tensors can be in the second one instead.

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
    """Returns results of operators that the function is known to own, and uses on one stream only, and
    donated parameters if asked.

    All bytes up to their last one must belong to them. None qualify if `reusable_storages` has none.
    """
    if function.has(ir.ForeignMemory):
        return {}
    crossing = analyses.get_for(function, crossing_streams)
    aliasing = analyses.aliasing(function)
    streams: dict[ir.Value, int] = {}
    params = function.params if donated else ()
    inputs = [p.value for p in params if ir.is_tensor(p.value) and _is_dense(p.value.type)]
    results = {v: OperatorResult(v, 0, 1) for v in inputs if v in aliasing.owned and v not in crossing}

    def add(result: ir.Value, stream: int) -> None:
        streams[result] = stream
        if ir.is_tensor(result) and result in aliasing.owned and result not in crossing:
            results[result] = OperatorResult(result, stream, 1)

    for op in function.body:
        match op:
            case ir.CallExtern(result=ir.Value() as result):
                add(result, op.stream)
            case ir.Unpack(result=result):
                add(result, streams.get(op.source, 0))
            case ir.AssertLayout(tensors=tensors, alignment=alignment):
                for value in tensors:
                    if value in results and alignment > results[value].alignment:
                        results[value] = OperatorResult(value, results[value].stream, alignment)
            case _:
                pass
    return {root: result for root, result in results.items() if aliasing.roots.get(root) == (root,)}


def _is_dense(type: ir.TensorType) -> bool:
    """Returns whether all bytes up to a tensor's last one are elements.

    Other bytes may belong to another argument.
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
        match op:
            case ir.Launch():
                for position, param in relied.get(op.kernel, ()):
                    needs |= dict.fromkeys(
                        ir.values_in(op.args[position : position + 1], []), param.divisible
                    )
            case ir.AssertLayout():
                needs |= dict.fromkeys(op.tensors, op.alignment)
            case _ if relied and not isinstance(op, _ANY_ADDRESS):
                needs = dict.fromkeys(ir.operands(op), ir.DEFAULT_ALIGNMENT)
            case _:
                continue
        for value, bytes in needs.items():
            for root in roots.get(value, NO_ROOTS):
                alignments[root] = max(alignments.get(root, 1), bytes)
    return alignments


def may_take_over_result(new: ir.AllocStorage, old: OperatorResult, relied: Mapping[ir.Value, int]) -> bool:
    """Like `may_take_over`, for results of operators; `relied` is the result of `relied_alignment`."""
    type = new.result.type
    return (type.nbytes, type.device, type.space, new.stream) == (
        ir.extent_bytes(old.value.type),
        old.value.type.device,
        ir.MemorySpace(),
        old.stream,
    ) and old.alignment % relied.get(new.result, 1) == 0


_ANY_ADDRESS = ir.AssertFinite | ir.CallExtern | ir.Copy | ir.EndOp | ir.Return | ir.Unpack | ir.View

"""Which storages a pass may let others take over, or replace by others."""

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
    """The storages that hold nothing at first, are used as tensors alone, and on one stream, with the ops that make them; none
    where memory is moved under tensors, or is of torch's pools."""
    if any(isinstance(op, ir.ForeignMemory) for op in function.body):
        return {}
    crossing = analyses.get_for(function, crossing_streams)
    found: dict[ir.Value, ir.AllocStorage] = {
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
                found.pop(value, None)
    return found


def first_uses(function: ir.Function, aliasing: Aliasing) -> Mapping[ir.Value, int]:
    """Where each root is first given to an op that does more than name it."""
    found: dict[ir.Value, int] = {}
    for position, op in enumerate(function.body):
        if not isinstance(op, ir.Allocation | ir.View | ir.EndOp):
            for value in ir.operands(op):
                for root in aliasing.roots.get(value, NO_ROOTS):
                    found.setdefault(root, position)
    return found


def may_take_over(new: ir.AllocStorage, old: ir.AllocStorage) -> bool:
    """Whether the first storage's tensors may lie in the second one instead: as many bytes, for all sizes, of the same memory
    and stream, aligned as far."""
    a, b = new.result.type, old.result.type
    return (
        (a.nbytes, a.device, a.space) == (b.nbytes, b.device, b.space)
        and new.stream == old.stream
        and b.alignment % a.alignment == 0
    )


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """A tensor with storage of its own that an operator made, or that the caller donates, on which stream, and what a check says of
    its address."""

    value: ir.Value[ir.TensorType]
    stream: int
    alignment: int


def operator_results(
    function: ir.Function, analyses: Analyses, *, donated: bool = False
) -> dict[ir.Value, OperatorResult]:
    """Results of operators that the function owns for certain and uses on one stream alone, and if asked for such parameters, that
    have all bytes up to their last one; none where `reusable_storages` has none."""
    if any(isinstance(op, ir.ForeignMemory) for op in function.body):
        return {}
    crossing = analyses.get_for(function, crossing_streams)
    aliasing = analyses.aliasing(function)
    streams: dict[ir.Value, int] = {}
    params = function.params if donated else ()
    given = [p.value for p in params if ir.is_tensor(p.value) and _is_dense(p.value.type)]
    found = {v: OperatorResult(v, 0, 1) for v in given if v in aliasing.owned and v not in crossing}
    for op in function.body:
        if isinstance(op, ir.CallExtern | ir.Unpack) and op.result is not None:
            streams[op.result] = op.stream if isinstance(op, ir.CallExtern) else streams.get(op.source, 0)
            made = op.result
            if ir.is_tensor(made) and made in aliasing.owned and made not in crossing:
                found[made] = OperatorResult(made, streams[made], 1)
        elif isinstance(op, ir.AssertLayout):
            for value in op.tensors:
                if value in found and op.alignment > found[value].alignment:
                    found[value] = OperatorResult(value, found[value].stream, op.alignment)
    return {root: result for root, result in found.items() if aliasing.roots.get(root) == (root,)}


def _is_dense(type: ir.TensorType) -> bool:
    """Whether a tensor has all bytes up to its last one: what is between them may be another argument's."""
    return expand(ir.extent_bytes(type)) == expand(mul(ir.numel(type.sizes), Int(type.dtype.itemsize)))


def relied_alignment(function: ir.Function, analyses: Analyses) -> Mapping[ir.Value, int]:
    """What the function relies on of the addresses under each root: launches what their kernels take them to be multiples of, other
    functions that they are where storages begin."""
    relied = analyses.get(relied_pointers)
    roots = analyses.aliasing(function).roots
    found: dict[ir.Value, int] = {}
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
                found[root] = max(found.get(root, 1), bytes)
    return found


def may_take_over_result(new: ir.AllocStorage, old: OperatorResult, relied: Mapping[ir.Value, int]) -> bool:
    """As `may_take_over`, for what an operator made; `relied` is what `relied_alignment` gives."""
    type = new.result.type
    return (type.nbytes, type.device, type.space, new.stream) == (
        ir.extent_bytes(old.value.type),
        old.value.type.device,
        ir.MemorySpace(),
        old.stream,
    ) and old.alignment % relied.get(new.result, 1) == 0


_ANY_ADDRESS = ir.AssertFinite | ir.CallExtern | ir.Copy | ir.EndOp | ir.Return | ir.Unpack | ir.View

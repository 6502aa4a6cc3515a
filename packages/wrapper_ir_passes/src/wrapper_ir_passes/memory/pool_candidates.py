"""Which storages of a function may be slots of pools."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from wrapper_ir import ir
from wrapper_ir.analysis.liveness import Liveness, analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.expr import Expr, Int, Interval, expand, mul
from wrapper_ir.expr.build import sum_of
from wrapper_ir_passes.memory.group_storages import shareable_group_memory
from wrapper_ir_passes.planner import Buffer


@dataclass(frozen=True, slots=True)
class PlannableStorage:
    """A storage that may be a slot, and where it is allocated: `count` times `factor` bytes."""

    position: int
    op: ir.AllocStorage
    count: int
    factor: Expr

    @property
    def zero(self) -> ir.ZeroMode:
        """With what a slot begins: others write what a storage keeps from call to call."""
        return ir.ZeroMode.NONE if self.op.zero is ir.ZeroMode.NONE else ir.ZeroMode.CALL

    def slot(self, pool: ir.Value[ir.StorageType], place: int) -> ir.Slot:
        """The storage as a slot that begins at `place` times the factor; one of a group's memory has the pool's id."""
        op, stream = self.op, 0 if self.zero is ir.ZeroMode.NONE else self.op.stream
        offset = mul(place, self.factor)
        result = op.result
        if result.type.space != pool.type.space:
            result = ir.Value(result.name, replace(result.type, space=pool.type.space))
        return ir.Slot(pool=pool, result=result, offset=offset, zero=self.zero, stream=stream, prov=op.prov)

    @property
    def kind(self) -> Hashable:
        """Storages of one kind may share a pool."""
        type = self.op.result.type
        space = (type.space.kind, type.space.group)  # a pool has one id of a group's memory for all
        return type.device, space, self.op.stream, self.factor

    def buffer(self, last_use: int, unit: int) -> Buffer:
        """The problem of placing it, where the factor is `unit` bytes; alignment counts in units of the factor, too."""
        type = self.op.result.type
        return Buffer(
            self.op.result.name, self.position, last_use + 1, self.count * unit, type.alignment * unit
        )


def plannable_storages(function: ir.Function, analyses: Analyses) -> Iterator[PlannableStorage]:
    """The storages that a function allocates and frees, and that one stream uses."""
    live: Liveness = analyses.get_for(function, analyse_liveness)
    crossing = analyses.get_for(function, crossing_streams)
    shareable = shareable_group_memory(function, analyses)
    for position, op in enumerate(function.body):
        if (
            not isinstance(op, ir.AllocStorage)
            or op.purpose is ir.AllocPurpose.POOL
            or (op.result.type.is_group_memory and op.result not in shareable)
            or op.result not in live.storages
            or op.result in crossing
        ):
            continue
        terms = expand(op.result.type.nbytes).terms
        if min(terms.values(), default=0) < 0 and not _is_dense(function, position, op.result):
            continue  # less than no bytes, where padded rows are none: a slot has no such extent
        count = math.gcd(*terms.values())
        if count:
            factor = sum_of({factors: scale // count for factors, scale in terms.items()})
            yield PlannableStorage(position, op, count, factor)


def _is_dense(function: ir.Function, position: int, storage: ir.Value[ir.StorageType]) -> bool:
    """Whether the bytes are those of the elements of a tensor, of which there are never fewer than 0."""
    view = function.body[position + 1]
    if not isinstance(view, ir.View) or view.source is not storage:
        return False
    type = view.result.type
    return expand(mul(ir.numel(type.sizes), Int(type.dtype.itemsize))) == expand(storage.type.nbytes)


def fresh_pool_name(used: set[str]) -> str:
    """The first of pool0, pool1, ... that is not in use; it is from now on."""
    number = 0
    while f"pool{number}" in used:
        number += 1
    used.add(f"pool{number}")
    return f"pool{number}"


def symbol_ranges(program: ir.Program) -> dict[str, Interval]:
    """What is known of the program's symbols, but for ranges that no value is in."""
    return {
        s.name: Interval(s.lower, s.upper)
        for s in program.symbols
        if s.lower is None or s.upper is None or s.lower <= s.upper
    }

"""Storages of a function that may become slots of pools."""

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
    """A storage that may become a slot, and its allocation: `count` times `factor` bytes."""

    position: int
    op: ir.AllocStorage
    count: int
    factor: Expr

    @property
    def zero(self) -> ir.ZeroMode:
        """The initial content of its slot: persistent storages may have been overwritten by others."""
        return ir.ZeroMode.NONE if self.op.zero is ir.ZeroMode.NONE else ir.ZeroMode.CALL

    def slot(self, pool: ir.Value[ir.StorageType], place: int) -> ir.Slot:
        """Returns the storage as a slot that starts at `place` times the factor; one of a group's memory has
        the pool's id.
        """
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
        space = (type.space.kind, type.space.group)  # a pool has one id of a group's memory
        return type.device, space, self.op.stream, self.factor

    def buffer(self, last_use: int, unit: int) -> Buffer:
        """Returns the placement problem for a factor of `unit` bytes; alignment also counts in units of the
        factor.
        """
        type = self.op.result.type
        return Buffer(
            self.op.result.name, self.position, last_use + 1, self.count * unit, type.alignment * unit
        )


def plannable_storages(function: ir.Function, analyses: Analyses) -> Iterator[PlannableStorage]:
    """Yields the storages that a function allocates and frees, and that only one stream uses."""
    live: Liveness = analyses.get_for(function, analyse_liveness)
    crossing = analyses.get_for(function, crossing_streams)
    shareable = shareable_group_memory(function, analyses)
    for position, op in function.positions_of(ir.AllocStorage):
        if (
            op.purpose is ir.AllocPurpose.POOL
            or (op.result.type.is_group_memory and op.result not in shareable)
            or op.result not in live.storages
            or op.result in crossing
        ):
            continue
        terms = expand(op.result.type.nbytes).terms
        if min(terms.values(), default=0) < 0 and not _is_dense(function, position, op.result):
            continue  # negative bytes, if there are no padded rows: no slot has such an extent
        count = math.gcd(*terms.values())
        if count:
            factor = sum_of({factors: scale // count for factors, scale in terms.items()})
            yield PlannableStorage(position, op, count, factor)


def _is_dense(function: ir.Function, position: int, storage: ir.Value[ir.StorageType]) -> bool:
    """Returns whether the bytes are those of the elements of a tensor, whose number is never negative."""
    match function.body[position + 1]:
        case ir.View(source=source, result=result) if source is storage:
            type = result.type
            return expand(mul(ir.numel(type.sizes), Int(type.dtype.itemsize))) == expand(storage.type.nbytes)
        case _:
            return False


def fresh_pool_name(names: set[str]) -> str:
    """Returns the first of pool0, pool1, ... that is unused, and marks it as used."""
    number = 0
    while f"pool{number}" in names:
        number += 1
    names.add(f"pool{number}")
    return f"pool{number}"


def symbol_ranges(program: ir.Program) -> dict[str, Interval]:
    """Returns the known ranges of the program's symbols, except for empty ranges."""
    return {
        s.name: Interval(s.lower, s.upper)
        for s in program.symbols
        if s.lower is None or s.upper is None or s.lower <= s.upper
    }

"""Places storages in donated arguments that are no longer read, several in one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.expr import as_int
from wrapper_ir_passes.analysis.memory import freed_at, held_outside
from wrapper_ir_passes.memory.reuse_candidates import (
    OperatorResult,
    operator_results,
    relied_alignment,
    reusable_storages,
    reused_roots,
)
from wrapper_ir_passes.planner.buffers import aligned

_BY_BYTES = (
    ir.AllocStorage
    | ir.AssertFinite
    | ir.AssertLayout
    | ir.CallExtern
    | ir.Copy
    | ir.Drop
    | ir.Free
    | ir.Launch
    | ir.View
)
"""Ops that distinguish tensors of one storage by their bytes; others use all of it."""


def place_in_arguments(function: ir.Function, analyses: Analyses, sizes: Sizes) -> ir.Function:
    """Returns the function with storages of fixed sizes in donated arguments, after the arguments' last use,
    the largest first.

    As many storages are placed in an argument as possible while keeping it does not increase the peak. Raises
    ExpressionError if a size has no value under the hints.
    """
    live = analyses.get_for(function, analyse_liveness)
    freed, reused = freed_at(function, live), reused_roots(function, live.aliasing)
    rooms = [
        _Room(result, sizes.bytes_of(v), live.storages[v], freed[v])
        for v, result in operator_results(function, analyses, donated=True).items()
        if live.aliasing.owned.get(v) == -1
        and v in live.storages
        and v in freed
        and v not in reused
        and as_int(ir.extent_bytes(result.value.type)) is not None
    ]
    if not rooms:
        return function
    outside = held_outside(function, analyses, sizes, frozenset())
    places: dict[ir.Value, tuple[OperatorResult, int]] = {}
    tenants = _tenants(function, analyses, sizes, freed)
    limit, steps = max(outside, default=0), _STEPS
    for room in sorted(rooms, key=lambda room: -room.size):
        steps -= len(tenants) + len(function.body)
        if steps < 0 or not tenants:
            break
        selection, more = room.filled(tenants, outside, limit, steps)
        places |= {tenant.op.result: (room.argument, place) for tenant, place in selection}
        storages = {tenant.op.result for tenant, _ in selection}
        tenants, steps = [t for t in tenants if t.op.result not in storages], more
    return function.with_body(_rewritten(function, places)) if places else function


_STEPS = 4_000_000
"""Limit of the cost of placing, in ops and storages visited: enough for hundreds of arguments of a model."""


@dataclass(frozen=True, slots=True)
class _Tenant:
    """A storage of `size` bytes, the ops that allocate and free it, and its relied alignment."""

    op: ir.AllocStorage
    size: int
    begin: int
    end: int
    relied: int


_Chosen = list[tuple[_Tenant, int]]
"""Storages, and the first byte of each."""


@dataclass(frozen=True, slots=True)
class _Room:
    """A donated argument of `size` bytes, its last use, and the op that frees it."""

    argument: OperatorResult
    size: int
    last_use: int
    end: int

    def filled(
        self, tenants: Sequence[_Tenant], outside: list[int], limit: int, steps: int
    ) -> tuple[_Chosen, int]:
        """Returns the storages to place, and the steps left; `held` has the bytes in use with them.

        While the peak is above the limit, the storage that ends last is left out, so that the argument ends
        earlier.
        """
        selection: _Chosen = []
        for tenant in tenants:
            place = self._place(tenant, selection)
            if place is not None:
                selection.append((tenant, place))
            steps -= len(selection)
        selection.sort(key=lambda item: item[0].end)
        while selection and steps > 0:
            first, changed = self._held(selection, outside)
            steps -= len(changed)
            if max(changed) <= limit:
                outside[first : first + len(changed)] = changed
                return selection, steps
            selection.pop()
        return [], steps

    def _place(self, tenant: _Tenant, selection: _Chosen) -> int | None:
        """Returns the lowest free place among the storages that are live at the same time."""
        type, argument_type = tenant.op.result.type, self.argument.value.type
        alike = (type.device, type.space, tenant.op.stream) == (
            argument_type.device,
            ir.MemorySpace(),
            self.argument.stream,
        )
        if not alike or tenant.begin <= self.last_use or self.argument.alignment % tenant.relied:
            return None
        low = 0
        beside = [(at, at + t.size) for t, at in selection if tenant.begin <= t.end and t.begin <= tenant.end]
        for first, last in sorted(beside):
            if low + tenant.size <= first:
                break
            low = max(low, aligned(last, ir.DEFAULT_ALIGNMENT))
        return low if low + tenant.size <= self.size else None

    def _held(self, selection: _Chosen, outside: Sequence[int]) -> tuple[int, list[int]]:
        """Returns the bytes in use from an op on, until the last of them ends: without these storages, with
        the argument.
        """
        first, end = min(t.begin for t, _ in selection), max(t.end for t, _ in selection) + 1
        first = min(first, self.end + 1)
        changes = [0] * (end - first + 1)
        for tenant, _ in selection:
            changes[tenant.begin - first] -= tenant.size
            changes[tenant.end + 1 - first] += tenant.size
        if self.end + 1 < end:
            changes[self.end + 1 - first] += self.size
        return first, [a + b for a, b in zip(outside[first:end], accumulate(changes), strict=False)]


def _tenants(
    function: ir.Function, analyses: Analyses, sizes: Sizes, freed: Mapping[ir.Value, int]
) -> list[_Tenant]:
    """Storages of fixed sizes that the function frees and that are used only by their bytes, the largest
    first.
    """
    relied, storages = relied_alignment(function, analyses), reusable_storages(function, analyses)
    roots = analyses.aliasing(function).roots
    for root in reused_roots(function, analyses.aliasing(function)):
        storages.pop(root, None)
    for op in function.body:
        if not isinstance(op, _BY_BYTES):
            for value in ir.operands(op):
                for root in roots.get(value, NO_ROOTS):
                    storages.pop(root, None)
    tenants = [
        _Tenant(op, sizes.bytes_of(op.result), at, freed[op.result], relied.get(op.result, 1))
        for at, op in function.positions_of(ir.AllocStorage)
        if op.result in storages and op.result in freed and as_int(op.result.type.nbytes) is not None
    ]
    return sorted(tenants, key=lambda tenant: -tenant.size)


def _rewritten(
    function: ir.Function, places: Mapping[ir.Value, tuple[OperatorResult, int]]
) -> Iterator[ir.Op]:
    """Returns the ops, with views of the arguments."""
    for op in function.body:
        match op:
            case ir.View(source=source, offset=offset) if source in places:
                argument, place = places[source]
                yield dataclasses.replace(op, source=argument.value, offset=offset + place)
            case ir.AllocStorage(result=storage) | ir.Free(storage=storage) if storage in places:
                pass
            case _:
                yield op

"""Slots lie inside their pools, and share no bytes while they are there.

A slot is there from its op to its `free`. A callee that is given a storage may use all of it: nothing else that is there
may lie in it. Slots at constant places stand in order, so that one more is compared with few of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from wrapper_ir import ops
from wrapper_ir.expr import Expr, Int
from wrapper_ir.layout import slot_alignment
from wrapper_ir.structure import call_args
from wrapper_ir.types import StorageType
from wrapper_ir.values import Value
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.obligations import Claim, Size, as_size
from wrapper_ir.verifier.proofs import shown

__all__ = ["Pools", "Tenant", "Tenants"]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A slot that is there: bytes [start, end) of its pool."""

    slot: Value
    start: Size
    end: Size
    nbytes: Expr


@dataclass(slots=True)
class Tenants:
    """The slots of one pool that are there. Those at constant places share no bytes, so their order is one by start and
    by end; a query is a binary search and one comparison for each overlap."""

    starts: list[int] = field(default_factory=list)
    fixed: list[Tenant] = field(default_factory=list)
    others: dict[Value, Tenant] = field(default_factory=dict)
    """Where symbols are in a place, or bytes are shared (which is reported)."""

    def near(self, tenant: Tenant) -> Iterator[Tenant]:
        """Those that `tenant` may share bytes with, at constant places those that it does."""
        yield from self.others.values()
        start, end = tenant.start, tenant.end
        if not isinstance(start, int) or not isinstance(end, int):
            yield from self.fixed
            return
        at = bisect_left(self.starts, end)
        while at > 0 and self._end(at - 1) > start:
            at -= 1
            yield self.fixed[at]

    def _end(self, at: int) -> int:
        end = self.fixed[at].end
        assert isinstance(end, int)
        return end

    def add(self, tenant: Tenant, *, apart: bool) -> None:
        """A slot begins; `apart` says that it overlaps none."""
        if apart and isinstance(tenant.start, int) and isinstance(tenant.end, int):
            at = bisect_left(self.starts, tenant.start)
            self.starts.insert(at, tenant.start)
            self.fixed.insert(at, tenant)
        else:
            self.others[tenant.slot] = tenant

    def remove(self, tenant: Tenant) -> None:
        """A slot ends."""
        if self.others.pop(tenant.slot, None) is None and isinstance(tenant.start, int):
            at = bisect_left(self.starts, tenant.start)
            del self.starts[at], self.fixed[at]

    def __iter__(self) -> Iterator[Tenant]:
        yield from self.fixed
        yield from self.others.values()


class Pools(Check):
    """WIR019, WIR050, WIR052, WIR059, WIR201, WIR275."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        body = facts.function.body
        self.pools: dict[Value, Tenants] = {
            op.result: Tenants()
            for op in body
            if isinstance(op, ops.AllocStorage) and op.purpose is ops.AllocPurpose.POOL
        }
        slots = [op for op in body if isinstance(op, ops.Slot)]
        for op in slots:
            self.pools.setdefault(op.pool, Tenants())
        self.plain = {
            op.result
            for op in body
            if isinstance(op, ops.AllocStorage)
            and op.purpose is not ops.AllocPurpose.POOL
            and op.result in self.pools
        }
        self.tenants: dict[Value, Tenant] = {}

    def handlers(self) -> Handlers:
        calls: Handlers = dict.fromkeys((ops.CallSubgraph, ops.Switch, ops.WhileLoop), self.call)
        return (
            {**calls, ops.Slot: self.slot, ops.View: self.view, ops.Free: self.free} if self.pools else calls
        )

    def view(self, position: int, op: ops.View) -> None:
        if op.source in self.pools:
            self.report("WIR019", f"%{op.source.name} holds slots: view one of them", position)

    def slot(self, position: int, op: ops.Slot) -> None:
        pool, slot = op.pool, op.result
        assert isinstance(pool.type, StorageType)
        if op.pool in self.plain:
            self.report("WIR019", f"%{pool.name} is not allocated as a pool", position)
            return
        if (slot.type.device, slot.type.space) != (pool.type.device, pool.type.space):
            self.report("WIR052", f"%{slot.name} is in other memory than %{pool.name}", position)
        if op.zero is ops.ZeroMode.ONCE or (op.stream and op.zero is ops.ZeroMode.NONE):
            what = (
                "keeps no zeros from call to call" if op.stream == 0 else "has a stream, and no zeros for it"
            )
            self.report("WIR275", f"%{slot.name} is a slot, which {what}", position)
        self.aligned(position, op)
        start, nbytes = as_size(op.offset), as_size(slot.type.nbytes)
        tenant = Tenant(slot, start, as_size(op.offset + slot.type.nbytes), slot.type.nbytes)
        self.inside(position, pool, tenant)
        found = self.pools[pool]
        near = [] if nbytes == 0 else list(found.near(tenant))
        for other in near:
            self.apart(position, tenant, other)
        if nbytes != 0:
            self.tenants[slot] = tenant
            found.add(tenant, apart=all(other.slot in found.others for other in near))

    def aligned(self, position: int, op: ops.Slot) -> None:
        """A slot has the alignment of its type, if its pool has it too."""
        assert isinstance(op.pool.type, StorageType)
        wanted, given = op.result.type.alignment, op.pool.type.alignment
        if wanted == slot_alignment(op.pool.type, op.offset):
            return

        def message() -> str:
            where = f"at {shown(op.offset)} of %{op.pool.name}, which is aligned to {given}"
            return f"%{op.result.name} is to be aligned to {wanted} bytes, and is {where}"

        if given % wanted:
            self.report("WIR201", message(), position)
        else:
            self.facts.require_multiple(wanted, as_size(op.offset), "WIR201", message, position)

    def inside(self, position: int, pool: Value, tenant: Tenant) -> None:
        capacity = self.facts.capacity(pool)
        start, end = tenant.start, tenant.end
        if isinstance(start, int) and isinstance(end, int) and isinstance(capacity, int):
            if not 0 <= start <= end <= capacity:
                self.report("WIR050", _outside(pool, tenant, capacity), position)
            return
        claim = Claim((((0, start), (start, end), (end, capacity)),))
        self.facts.require(claim, "WIR050", lambda: _outside(pool, tenant, capacity), position)

    def apart(self, position: int, one: Tenant, other: Tenant) -> None:
        either = (((one.end, other.start),), ((other.end, one.start),))
        unless = tuple(e for e in (one.nbytes, other.nbytes) if not isinstance(e, Int))
        message = f"%{one.slot.name} overlaps %{other.slot.name}, which has not ended"
        self.facts.require(Claim(either, unless), "WIR059", partial(str, message), position)

    def free(self, position: int, op: ops.Free) -> None:
        tenant = self.tenants.pop(op.storage, None)
        host = self.facts.aliasing.hosts.get(op.storage)
        if tenant is not None and host is not None:
            self.pools[host].remove(tenant)

    def call(self, position: int, op: ops.CallSubgraph | ops.Switch | ops.WhileLoop) -> None:
        """A callee may use all of a storage: nothing else lies in it, and no other argument does."""
        given = [arg for arg in call_args(op) if isinstance(arg, Value)]
        roots_at = self.facts.aliasing.roots_at
        for number, storage in enumerate(given):
            if not isinstance(storage.type, StorageType):
                continue
            for tenant in self.pools.get(storage, ()):
                message = f"%{storage.name} is lent, and %{tenant.slot.name} in it has not ended"
                self.report("WIR059", message, position)
            for other in (*given[:number], *given[number + 1 :]):
                if storage in roots_at(other, position):
                    self.report("WIR059", f"%{storage.name} and %{other.name} share bytes", position)


def _outside(pool: Value, tenant: Tenant, capacity: Size) -> str:
    return (
        f"%{tenant.slot.name} is bytes {shown(tenant.start)} to {shown(tenant.end)} of %{pool.name}, "
        f"which has {shown(capacity)}"
    )

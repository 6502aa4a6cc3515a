"""Checks that slots are inside of their pools, and that live slots share no bytes.

A slot is live from its op to its `free`. A callee may use all bytes of a storage argument, so no live slot
may be in it. Slots that are proved to follow each other are kept in order, so that a new slot is compared
with few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import gcd

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Monomial
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.inequalities import terms_of
from wrapper_ir.verifier.obligations import Claim, Size, as_numbers, as_size
from wrapper_ir.verifier.proofs import shown

_Factor = frozenset[tuple[Monomial, int]]
"""A polynomial whose coefficients have no common divisor."""
_Before = Callable[[Size, Size], bool]
"""Returns whether the first size is proved to be at most the second."""


@dataclass(frozen=True, slots=True, eq=False)
class Tenant:
    """A live slot: bytes [start, end) of its pool. If `factor` is not None, these are `low * factor` and
    `high * factor`."""

    slot: ir.Value
    start: Size
    end: Size
    nbytes: Expr
    factor: _Factor | None
    low: int
    high: int

    @classmethod
    def of(cls, op: ir.Slot) -> Tenant:
        """The slot that an op creates."""
        nbytes = op.result.type.nbytes
        start, end = as_size(op.offset), as_size(op.offset + nbytes)
        (one, low), (other, high) = _number_of(start), _number_of(end)
        same = not one or one == other
        return cls(op.result, start, end, nbytes, other if same and other else None, low, high)

    def is_before(self, other: Tenant, proves: _Before) -> bool:
        """Returns whether it is proved to end before the other one starts. A common factor is not negative,
        because slots end after they start."""
        if self.factor is not None and self.factor == other.factor:
            return self.high <= other.low
        return proves(self.end, other.start)


def _number_of(size: Size) -> tuple[_Factor, int]:
    """A size as a number times a factor, which is empty for 0."""
    if isinstance(size, int):
        return (frozenset({((), 1)}) if size else frozenset(), size)
    terms = terms_of(size)
    number = gcd(*terms.values())
    return frozenset((monomial, scale // number) for monomial, scale in terms.items()), number


@dataclass(slots=True)
class Tenants:
    """The live slots of one pool. Those in `ordered` are proved to follow each other, so that a binary search
    compares a new slot with few of them."""

    proves: _Before
    ordered: list[Tenant] = field(default_factory=list)
    others: dict[ir.Value, Tenant] = field(default_factory=dict)
    """Slots whose order is not proved, or that overlap (which is reported)."""

    def place(self, tenant: Tenant) -> int | None:
        """The index of a slot in `ordered`, or the one to insert it at; None if it is not proved to be apart
        from all."""
        low, high = 0, len(self.ordered)
        if high and self.ordered[-1].is_before(tenant, self.proves):
            return high  # most slots start after all others
        while low < high:
            middle = (low + high) // 2
            other = self.ordered[middle]
            if other is tenant:
                return middle
            if other.is_before(tenant, self.proves):
                low = middle + 1
            elif tenant.is_before(other, self.proves):
                high = middle
            else:
                return None
        return low

    def near(self, tenant: Tenant, at: int | None) -> list[Tenant]:
        """The slots that may share bytes with a slot at index `at`."""
        return [*self.others.values(), *(self.ordered if at is None else ())]

    def add(self, tenant: Tenant, at: int | None) -> None:
        """Adds a slot at index `at`."""
        if at is None:
            self.others[tenant.slot] = tenant
        else:
            self.ordered.insert(at, tenant)

    def remove(self, tenant: Tenant) -> None:
        """Removes a slot that ends."""
        if self.others.pop(tenant.slot, None) is not None:
            return
        at = self.place(tenant)
        if at is None or at == len(self.ordered) or self.ordered[at] is not tenant:
            at = self.ordered.index(tenant)
        del self.ordered[at]

    def __iter__(self) -> Iterator[Tenant]:
        yield from self.ordered
        yield from self.others.values()


class Pools(Check):
    """WIR019, WIR050, WIR052, WIR059, WIR201, WIR275."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.pools: dict[ir.Value, Tenants] = {}
        self.plain: set[ir.Value] = set()
        """Storages with slots that are not allocated as pools."""
        for op in facts.function.ops_of(ir.AllocStorage, ir.Slot):
            match op:
                case ir.Slot():
                    self.pools.setdefault(op.pool, Tenants(facts.proofs.proves))
                case ir.AllocStorage(purpose=ir.AllocPurpose.POOL):
                    self.pools[op.result] = Tenants(facts.proofs.proves)
                case ir.AllocStorage():
                    self.plain.add(op.result)
        self.plain &= self.pools.keys()
        self.tenants: dict[ir.Value, Tenant] = {}

    def handlers(self) -> Handlers:
        calls: Handlers = dict.fromkeys((ir.CallSubgraph, ir.Switch, ir.WhileLoop), self.call)
        return {**calls, ir.Slot: self.slot, ir.View: self.view, ir.Free: self.free} if self.pools else calls

    def view(self, position: int, op: ir.View) -> None:
        if op.source in self.pools:
            self.report("WIR019", f"%{op.source.name} holds slots: view one of them", position)

    def slot(self, position: int, op: ir.Slot) -> None:
        pool, slot = op.pool, op.result
        if pool in self.plain:
            self.report("WIR019", f"%{pool.name} is not allocated as a pool", position)
            return
        if (slot.type.device, slot.type.space) != (pool.type.device, pool.type.space):
            self.report("WIR052", f"%{slot.name} is in other memory than %{pool.name}", position)
        if op.zero is ir.ZeroMode.ONCE or (op.stream and op.zero is ir.ZeroMode.NONE):
            what = (
                "keeps no zeros from call to call" if op.stream == 0 else "has a stream, and no zeros for it"
            )
            self.report("WIR275", f"%{slot.name} is a slot, which {what}", position)
        self.aligned(position, op)
        tenant = Tenant.of(op)
        self.inside(position, pool, tenant)
        if as_size(slot.type.nbytes) == 0:
            return
        tenants = self.pools[pool]
        at = tenants.place(tenant)
        for other in tenants.near(tenant, at):
            self.apart(position, tenant, other)
        self.tenants[slot] = tenant
        tenants.add(tenant, at)

    def aligned(self, position: int, op: ir.Slot) -> None:
        """Requires that a slot has the alignment of its type, which its pool must have too."""
        own, base = op.result.type.alignment, op.pool.type.alignment
        if own == ir.slot_alignment(op.pool.type, op.offset):
            return

        def message() -> str:
            where = f"at {shown(op.offset)} of %{op.pool.name}, which is aligned to {base}"
            return f"%{op.result.name} is to be aligned to {own} bytes, and is {where}"

        if base % own:
            self.report("WIR201", message(), position)
        else:
            self.facts.require_multiple(own, as_size(op.offset), "WIR201", message, position)

    def inside(self, position: int, pool: ir.Value, tenant: Tenant) -> None:
        capacity = self.facts.capacity(pool)
        start, end = tenant.start, tenant.end
        numbers = as_numbers(start, end, capacity)
        if numbers is not None:
            if not 0 <= numbers[0] <= numbers[1] <= numbers[2]:
                self.report("WIR050", _outside(pool, tenant, capacity), position)
            return
        claim = Claim((((0, start), (start, end), (end, capacity)),))
        self.facts.require(claim, "WIR050", lambda: _outside(pool, tenant, capacity), position)

    def apart(self, position: int, one: Tenant, other: Tenant) -> None:
        either = (((one.end, other.start),), ((other.end, one.start),))
        unless = tuple(e for e in (one.nbytes, other.nbytes) if e.constant is None)
        message = f"%{one.slot.name} overlaps %{other.slot.name}, which has not ended"
        self.facts.require(Claim(either, unless), "WIR059", partial(str, message), position)

    def free(self, position: int, op: ir.Free) -> None:
        tenant = self.tenants.pop(op.storage, None)
        host = self.facts.aliasing.hosts.get(op.storage)
        if tenant is not None and host is not None:
            self.pools[host].remove(tenant)

    def call(self, position: int, op: ir.CallingOp) -> None:
        """Requires that no live slot and no other argument shares bytes with a storage argument, because the
        callee may use all of them."""
        values = [arg for arg in ir.call_args(op) if isinstance(arg, ir.Value)]
        roots_at = self.facts.aliasing.roots_at
        for number, storage in enumerate(values):
            if not ir.is_storage(storage):
                continue
            for tenant in self.pools.get(storage, ()):
                message = f"%{storage.name} is lent, and %{tenant.slot.name} in it has not ended"
                self.report("WIR059", message, position)
            for other in (*values[:number], *values[number + 1 :]):
                if storage in roots_at(other, position):
                    self.report("WIR059", f"%{storage.name} and %{other.name} share bytes", position)


def _outside(pool: ir.Value, tenant: Tenant, capacity: Size) -> str:
    return (
        f"%{tenant.slot.name} is bytes {shown(tenant.start)} to {shown(tenant.end)} of %{pool.name}, "
        f"which has {shown(capacity)}"
    )

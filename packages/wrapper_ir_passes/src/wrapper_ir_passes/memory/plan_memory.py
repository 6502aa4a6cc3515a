"""Puts storages into pools, to reduce allocations and memory in use."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.liveness import Liveness, analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, as_int, mul
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.analysis.memory import held_outside, memory_use
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.memory.donated_inputs import place_in_arguments
from wrapper_ir_passes.memory.hoist_storages import Hoister
from wrapper_ir_passes.memory.join_results import join_results
from wrapper_ir_passes.memory.pool_candidates import (
    PlannableStorage,
    fresh_pool_name,
    plannable_storages,
    symbol_ranges,
)
from wrapper_ir_passes.memory.shared_pools import share_pools
from wrapper_ir_passes.planner import (
    Algorithm,
    Buffer,
    Packer,
    Pool,
    SearchBudget,
    held_bytes,
    pack,
    plan_pools,
)

_FEW_STORAGES = 256
"""Above this number of storages only one plan is made: saving the last percent may take seconds."""


@dataclasses.dataclass(frozen=True)
class PlanMemory(Pass):
    """Turns storages that a function allocates and frees into slots of pools, and derives lifetimes again.

    Results equal those without a plan, bit for bit. Under the symbols' hints, the peak of a call exceeds the
    live bytes by at most `slack` percent, including operators' own results and returned storages. Within that
    limit, there are few allocations. The default is 1 if it saves more than half of a function's allocations,
    otherwise 0. `algorithm` places slots: `best`, `by-size`, `by-area` or `best-fit`. Storages of one pool
    are on one device and stream, and their bytes are numbers times one symbolic factor: `256*s0` and
    `1024*s0` share a pool at one time. A storage with another factor may follow one that is known to be at
    least as large. A storage of zeros becomes a slot that is filled with zeros. Storages that are returned,
    moved, resized, or used on several streams are unchanged. So are symmetric memory that other processes may
    use after its ops, and padded rows that may be empty. Functions that allocate from torch's pools, or with
    a size that has no value under the hints, are unchanged, too. Storages of branches, loop bodies and
    callees become slots of memory that callers pass, if that does not increase the peak. With `results`,
    results of `main` share one allocation if that does not increase the peak; its caller then keeps all of it
    while it keeps any. With `donated`, storages are placed in donated arguments if that saves allocations,
    several in one. `persistent` is for memory that is kept from call to call: storages of `main` of fixed
    sizes share one pool of their kind, since all of it is always in use. Existing pools are planned again.
    """

    name: ClassVar[str] = "plan-memory"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs
    algorithm: Algorithm = Algorithm.BEST
    slack: int | None = None
    persistent: bool = False
    results: bool = False
    donated: bool = False

    @property
    def most_slack(self) -> float:
        """The share by which the peak may exceed the live bytes."""
        return (1 if self.slack is None else self.slack) / 100

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with pools."""
        if self.persistent:
            analyses = analyses.after(_without_pools(analyses.program))
        derived = analyses.after(derive_frees(analyses.program, analyses))
        sizes = Sizes(derived.program)
        if self.results:
            derived = analyses.after(_with_joined_results(derived, sizes))
        planned = self._best(derived, sizes)
        if self.donated and not self.persistent:
            within = analyses.after(_with_room_in_arguments(derived, sizes))
            if within is not derived:
                planned = min(planned, self._best(within, sizes), key=_allocations)
        return derive_frees(planned) if planned is not derived.program else planned

    def _best(self, derived: Analyses, sizes: Sizes) -> ir.Program:
        """Returns the plan that passes most storages to callees, among those within the slack."""
        packer = partial(pack, algorithm=self.algorithm, budget=SearchBudget())
        alone = self._planned(derived, sizes, packer)
        hoister, slack = Hoister(derived, sizes, packer), self.most_slack
        if not hoister.calls:
            return alone
        try:
            hoisted = (hoister.hoisted(), hoister.hoisted(slack))
            plans = [self._planned(Analyses(derive_frees(h)), sizes, packer) for h in hoisted]
            totals = [_held(plan, sizes) for plan in (*plans, alone)]
            limit = max(memory_use(derived.program.main, derived, sizes).live * (1 + slack), min(totals))
        except ExpressionError:
            return alone  # the size of passed or used memory has no value under the hints
        return next(plan for plan, bytes in zip((*plans, alone), totals, strict=True) if bytes <= limit)

    def _planned(self, derived: Analyses, sizes: Sizes, packer: Packer) -> ir.Program:
        """The program with pools, each function planned on its own."""
        program = derived.program
        return program.with_functions(
            [_Planner(f, derived, sizes, self, packer).planned() for f in program.functions]
        )


def _with_joined_results(analyses: Analyses, sizes: Sizes) -> ir.Program:
    program = analyses.program
    with suppress(ExpressionError):  # a size has no value under the hints: the peak is unknown
        main = join_results(program.main, analyses, sizes)
        return program.with_functions([main if f is program.main else f for f in program.functions])
    return program


def _with_room_in_arguments(analyses: Analyses, sizes: Sizes) -> ir.Program:
    program = analyses.program
    with suppress(ExpressionError):  # a size has no value under the hints: the peak is unknown
        main = place_in_arguments(program.main, analyses, sizes)
        if main is not program.main:
            return derive_frees(
                program.with_functions([main if f is program.main else f for f in program.functions])
            )
    return program


def _allocations(program: ir.Program) -> int:
    return sum(1 for _ in program.ops_of(ir.AllocStorage))


def _held(program: ir.Program, sizes: Sizes) -> int:
    """Bytes in use at the peak."""
    derived = derive_frees(program)
    return memory_use(derived.main, Analyses(derived), sizes).peak


class _Planner:
    def __init__(
        self, function: ir.Function, analyses: Analyses, sizes: Sizes, options: PlanMemory, packer: Packer
    ) -> None:
        self.function, self.analyses, self.sizes, self.options = function, analyses, sizes, options
        self.packer = packer
        self.ranges = symbol_ranges(analyses.program)
        self.live: Liveness = analyses.get_for(function, analyse_liveness)

    def planned(self) -> ir.Function:
        """Returns the function with its storages in pools; itself if none can share one."""
        if self.function.has(ir.EnterMemoryPool):
            return self.function
        storages = {
            s.op.result.name: s
            for s in plannable_storages(self.function, self.analyses)
            if s.op.zero is not ir.ZeroMode.ONCE
            or not self.options.persistent  # zeros of persistent memory are kept from call to call
        }
        try:
            pools = self._pools(storages)
        except ExpressionError:
            return self.function  # a size has no value under the hints: the peak is unknown
        shared = [group for group in pools if len(group) > 1 or len(group[0].buffers) > 1]
        return self._rewritten(shared, storages) if shared else self.function

    def _pools(self, storages: Mapping[str, PlannableStorage]) -> list[list[Pool]]:
        """Returns the pools of each allocation, one after the other."""
        buffers = [
            s.buffer(self.live.storages[s.op.result], self._bytes(s.factor)) for s in storages.values()
        ]
        fixed = [b for b in buffers if self._is_held(storages[b.name])]
        outside = self._outside({s.op.result for s in storages.values()})
        kinds = {name: s.kind for name, s in storages.items()}
        in_use = plan_pools(fixed, outside, kinds, None, self.packer)
        outside = held_bytes(in_use, outside)
        others = [b for b in buffers if b not in fixed] if fixed else buffers
        pools = self._within_slack(others, outside, kinds, self.options.most_slack)
        if self.options.slack is None and len(others) <= _FEW_STORAGES:
            tight = self._within_slack(others, outside, kinds, 0)
            pools = tight if len(tight) <= 2 * len(pools) else pools
        units = {s.factor: self._bytes(s.factor) for s in storages.values()}
        limit = max(held_bytes(others, outside), default=0) * (1 + self.options.most_slack)
        groups = share_pools(pools, storages, units, self.ranges, outside, limit)
        return [*([pool] for pool in in_use), *groups]

    def _within_slack(
        self, buffers: Sequence[Buffer], outside: Sequence[int], kinds: Mapping[str, Hashable], slack: float
    ) -> tuple[Pool, ...]:
        """Returns pools of the buffers within the slack, which need little memory even for operators with
        several results.

        Such operators may return results that nothing uses, of sizes that the program does not have. These
        count as one byte. Of two plans with equal peaks, the one with less memory there is chosen, unless it
        exceeds the limit without these bytes.
        """
        makes_more = [any(ir.is_results(v) for v in ir.results(op)) for op in self.function.body]
        more = [bytes + extra for bytes, extra in zip(outside, makes_more, strict=True)]
        pools = plan_pools(buffers, more, kinds, slack, self.packer)
        limit = int(max(held_bytes(buffers, outside), default=0) * (1 + slack))
        is_within = max(held_bytes(pools, outside), default=0) <= limit
        return (
            pools
            if is_within or not any(makes_more)
            else plan_pools(buffers, outside, kinds, slack, self.packer)
        )

    def _outside(self, planned: Set[ir.Value]) -> list[int]:
        """Bytes in use besides the planned storages, while each op runs."""
        return held_outside(self.function, self.analyses, self.sizes, planned)

    def _is_held(self, storage: PlannableStorage) -> bool:
        """Returns whether its memory is kept from call to call."""
        main = self.function is self.analyses.program.main
        return self.options.persistent and main and not storage.factor.free_symbols

    def _bytes(self, factor: Expr) -> int:
        return max(1, self.sizes.number(factor))

    def _rewritten(self, groups: list[list[Pool]], storages: Mapping[str, PlannableStorage]) -> ir.Function:
        names = {v.name for v in (*ir.definitions(self.function), *self.analyses.constant_values)}
        slots: dict[str, ir.Slot] = {}
        first: dict[str, ir.AllocStorage] = {}
        for pools in groups:
            begins = min(pools[0].buffers, key=lambda b: b.begin).name
            factor, like = storages[begins].factor, storages[begins].op
            types = [storages[b.name].op.result.type for pool in pools for b in pool.buffers]
            nbytes = mul(pools[0].size // self._bytes(factor), factor)
            alignment = max(t.alignment for t in types)
            type = dataclasses.replace(like.result.type, nbytes=nbytes, alignment=alignment)
            pool_value = ir.Value(fresh_pool_name(names), type)
            first[begins] = ir.AllocStorage(
                result=pool_value, purpose=ir.AllocPurpose.POOL, stream=like.stream
            )
            for pool, b in [(p, b) for p in pools for b in p.buffers]:
                storage = storages[b.name]
                slots[b.name] = storage.slot(pool_value, pool.offsets[b.name] // self._bytes(storage.factor))
        return self.function.with_body(_with_slots(self.function, slots, first))


def _without_pools(program: ir.Program) -> ir.Program:
    """Returns the program with each slot of `main`'s fixed-size pools as a separate storage, if the pools
    contain nothing else.
    """
    main = program.main
    pools: dict[ir.Value, int] = {
        op.result: op.stream
        for op in main.ops_of(ir.AllocStorage)
        if op.purpose is ir.AllocPurpose.POOL
        and as_int(op.result.type.nbytes) is not None
        and not op.result.type.is_group_memory  # its slots have no separate ids
    }
    slots: dict[ir.Value, ir.Value] = {op.result: op.pool for op in main.ops_of(ir.Slot)}
    for op in main.body if pools else ():
        match op:
            case ir.Free():
                pass
            case ir.Slot(pool=pool):
                if pool in slots:  # a slot with slots
                    pools.pop(slots[pool], None)
            case _:
                for value in ir.operands(op):
                    pools.pop(value, None)
    return program.with_functions(
        [f.with_body(_single(f, pools)) if f is main and pools else f for f in program.functions]
    )


def _single(function: ir.Function, pools: Mapping[ir.Value, int]) -> Iterator[ir.Op]:
    for op in function.body:
        match op:
            case ir.Slot(pool=pool) if pool in pools:
                yield ir.AllocStorage(result=op.result, zero=op.zero, stream=pools[pool], prov=op.prov)
            case ir.AllocStorage(result=storage) | ir.Free(storage=storage) if storage in pools:
                pass
            case _:
                yield op


def _with_slots(
    function: ir.Function, slots: Mapping[str, ir.Slot], pools: Mapping[str, ir.AllocStorage]
) -> Iterator[ir.Op]:
    storages = {op.result.name: op.result for op in function.ops_of(ir.AllocStorage)}
    moved: dict[ir.Value, ir.Value] = {
        storages[n]: s.result for n, s in slots.items() if s.result != storages[n]
    }
    for op in function.body:
        match op:
            case ir.AllocStorage() if (name := op.result.name) in slots:
                if name in pools:
                    yield pools[name]
                yield slots[name]
            case _:
                yield ir.map_values(op, lambda v: moved.get(v, v)) if moved else op

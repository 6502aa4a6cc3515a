"""Which stretches of `main` a device can record, and why the others are not part of one.

A region is a run of ops between two that the host has a part in. `refusals` says which ops those are; what more keeps an op
out is how it is connected: results whose memory is not the region's, memory of pools that reach beyond it, sizes that only a
run knows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.own_memory import foreign_memory
from wrapper_ir.analysis.recordable import communicates, refusals
from wrapper_ir.expr import Expr

_ENDS = (ir.Free, ir.Drop)
_HOST = (ir.Comment, ir.Define, ir.AssertExpr, ir.AssertLayout, ir.Barrier, *_ENDS)
"""The device does nothing for these."""
_NAME = re.compile(r"[%@][^\s:]+")
_NO_WORK = (*_HOST, ir.View, ir.AllocStorage, ir.Slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionOptions:
    """`least`: how many ops that do work a region has at least. `collectives`: whether those are recorded. `unbacked`: whether
    regions may depend on sizes that only a run knows. `own_memory`: whether operators that allocate stay out (`own_memory.py`)."""

    least: int = 2
    collectives: bool = False
    unbacked: bool = False
    own_memory: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """The ops of `main` from `start` up to `stop`, which work on `device`."""

    start: int
    stop: int
    device: ir.Device


@dataclass(frozen=True, slots=True)
class Split:
    """An op that is not recorded, and why."""

    position: int
    why: str


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of `main` in order, and what lies between them."""

    regions: tuple[Region, ...]
    splits: tuple[Split, ...]

    @property
    def reasons(self) -> Mapping[str, int]:
        """How many ops each reason keeps out, whatever values and functions it names; the most frequent first."""
        return dict(Counter(_NAME.sub("...", split.why) for split in self.splits).most_common())


def find_regions(analyses: Analyses, options: RegionOptions) -> Regions:
    """The largest regions of `main`, whose frees and drops count for nothing."""
    return _Finder(analyses, options).found()


def region_symbols(op: ir.Op, analyses: Analyses) -> Set[str]:
    """The symbols that an op, the types of its values, or a function that it calls depends on."""
    found: set[str] = set()
    for e in ir.exprs(op):
        found |= e.free_symbols
    for value in (*ir.operands(op), *ir.results(op)):
        for e in _type_exprs(value.type):
            found |= e.free_symbols
    for name in ir.callees(op):
        if name in analyses.functions:
            found.update(analyses.functions[name].captures)
    return found


def _type_exprs(type: ir.Type) -> Sequence[Expr]:
    if isinstance(type, ir.TensorType):
        return (*type.sizes, *type.strides)
    return (type.nbytes,) if isinstance(type, ir.StorageType) else ()


class _Finder:
    def __init__(self, analyses: Analyses, options: RegionOptions) -> None:
        self.analyses, self.options = analyses, options
        self.function: ir.Function = analyses.program.main
        self.body = self.function.body
        self.aliasing = analyses.aliasing(self.function)
        self.constants = analyses.constant_values
        self.refused: dict[int, str] = {}
        self.made = {v: at for at, op in enumerate(self.body) for v in ir.results(op)}
        self.defined = {op.symbol: at for at, op in enumerate(self.body) if isinstance(op, ir.Define)}
        self.last: dict[ir.Value, int] = {}
        for at, op in enumerate(self.body):
            if not isinstance(op, _ENDS):
                self.last |= dict.fromkeys(ir.operands(op), at)

    def found(self) -> Regions:
        """Refuses what cannot be part of a region until every region that is left can be one."""
        self._refuse_alone()
        while True:
            regions = list(self._runs())
            refused = {at: why for region in regions for at, why in self._misfits(region)}
            if not refused:
                break
            self.refused |= refused
        kept = []
        for region in regions:
            work = [at for at in range(region.start, region.stop) if not isinstance(self.body[at], _NO_WORK)]
            if len(work) >= self.options.least:
                kept.append(region)
            else:
                self.refused |= dict.fromkeys(work, f"fewer than {self.options.least} ops stand together")
        splits = [Split(at, why) for at, why in sorted(self.refused.items()) if self._counts(at)]
        return Regions(tuple(kept), tuple(splits))

    def _counts(self, at: int) -> bool:
        op = self.body[at]
        recorded = isinstance(op, ir.CallSubgraph) and self.analyses.functions[op.function].recordable
        return not recorded and not isinstance(op, ir.Return | ir.AllocStorage | ir.View | ir.EndOp)

    # --- what an op says alone

    def _refuse_alone(self) -> None:
        scopes: list[bool] = []
        for at, op in enumerate(self.body):
            why = self._reason(op, at)
            if isinstance(op, ir.EnterMemoryPool | ir.EnterProfile):
                scopes.append(isinstance(op, ir.EnterMemoryPool))
            elif isinstance(op, ir.ExitScope) and scopes:
                scopes.pop()
            if why is None and any(scopes):
                why = "memory comes from a pool of the process"
            if why is not None:
                self.refused[at] = why

    def _reason(self, op: ir.Op, at: int) -> str | None:
        if isinstance(op, ir.Return):
            return "the end"
        if isinstance(op, ir.EnterProfile | ir.ExitScope):
            return "a scope of profilers begins or ends here"
        stream: int = getattr(op, "stream", 0)  # ops that queue nothing have none
        if stream or isinstance(op, ir.RecordEvent | ir.WaitEvent):
            return "it is work of several streams"
        for _, why in refusals(op, self.analyses):
            return why
        if len({ir.device_of(v) for v in (*ir.operands(op), *ir.results(op))} - {None}) > 1:
            return "it works on two devices"
        if not self.options.collectives and communicates(op, self.analyses):
            return "it communicates with other processes"
        if self.options.own_memory and (why := foreign_memory(op, self.analyses)):
            return why
        if isinstance(op, _HOST):
            return None
        return self._reason_in_callees(op, at) or self._unknown_sizes(op, at)

    def _reason_in_callees(self, op: ir.Op, at: int) -> str | None:
        for name in ir.callees(op):
            callee = self.analyses.functions[name]
            if callee.recordable:
                return f"@{name} is recorded by itself"
            if any(p.ownership is ir.Ownership.OWNED for p in callee.params):
                return f"@{name} takes memory over"
            for inner in callee.body:
                why = None if isinstance(inner, ir.Return) else self._reason(inner, at)
                if why is not None:
                    return f"in @{name}: {why}"
        return None

    def _unknown_sizes(self, op: ir.Op, at: int) -> str | None:
        for name in sorted(region_symbols(op, self.analyses)):
            symbol = self.analyses.symbols.get(name)
            is_known = self.options.unbacked and self.defined.get(name, -1) < at
            if symbol is not None and not symbol.backed and not is_known:
                return f"only a run knows {name}"
        return None

    # --- regions

    def _runs(self) -> Iterator[Region]:
        """Runs of ops that nothing refuses, of one device, from the first that is not a check to the last that does work."""
        start, device, last = None, None, 0
        for at, op in enumerate(self.body):
            here = next(
                (d for v in (*ir.operands(op), *ir.results(op)) if (d := ir.device_of(v)) is not None), None
            )
            if start is not None and (
                at in self.refused or (here is not None and device not in (None, here))
            ):
                if device is not None:
                    yield Region(start, last, device)
                start, device = None, None
            if at in self.refused or (start is None and isinstance(op, _HOST)):
                continue
            if start is None:
                start = at
            device = device or here
            if not isinstance(op, _HOST):
                last = at + 1

    def _misfits(self, region: Region) -> Iterator[tuple[int, str]]:
        """Ops that cannot be part of this region, because of how it is connected."""
        for at in range(region.start, region.stop):
            op = self.body[at]
            if isinstance(op, ir.Define):
                inside = [v for v in ir.operands(op) if self.made.get(v, -1) >= region.start]
                if inside:
                    yield at, f"{op.symbol} is read from a result"
            for value in () if isinstance(op, _ENDS) else ir.operands(op):
                if value not in self.constants and self.made.get(value, -1) < region.start:
                    why = _unfit_argument(op, value)
                    if why:
                        yield at, why
            for value in ir.results(op):
                if self.last.get(value, -1) >= region.stop:
                    why = self._unfit_result(op, value, region)
                    if why:
                        yield at, why

    def _unfit_result(self, op: ir.Op, value: ir.Value, region: Region) -> str:
        """Why a value that is used after the region cannot be a result of it; "" where it can."""
        if ir.is_storage(value):
            later = (o for o in self.body[region.stop : self.last[value] + 1] if value in ir.operands(o))
            viewed = not isinstance(op, ir.Slot) and all(isinstance(o, (ir.View, *_ENDS)) for o in later)
            return "" if viewed else f"%{value.name} is a pool of several regions"
        if isinstance(value.type, ir.TupleType | ir.OpaqueType):
            return f"%{value.name} is not a tensor, and used after it"
        roots = self.aliasing.roots.get(value, NO_ROOTS)
        if any(root in self.aliasing.hosts and self.made.get(root, -1) >= region.start for root in roots):
            return f"%{value.name} lies in a pool of several regions"
        while isinstance(op, ir.View):  # can be made before the region, if what it is a view of is there
            at = self.made.get(op.source, -1)
            if at < region.start:
                return ""
            op = self.body[at]
        if all(region.start <= self.made.get(r, -1) < region.stop for r in roots):
            return ""
        return f"%{value.name} is memory from before it"


def _unfit_argument(op: ir.Op, value: ir.Value) -> str:
    """Why an op of a region cannot use a value from before it; "" where it can."""
    if ir.is_storage(value) and not isinstance(op, ir.View):
        return f"%{value.name} is a pool of several regions"
    if isinstance(value.type, ir.TupleType | ir.OpaqueType):
        return f"%{value.name} is not a tensor, and made before it"
    return ""

"""Finds the regions of `main` that a device can capture, and the reasons why other ops are not in one.

A region is a run of ops between two ops that involve the host, as `refusals` defines them. Its connections
may also exclude an op: results in memory from outside the region, pools that are used beyond it, or sizes
that are known only at run time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.own_memory import foreign_memory
from wrapper_ir.analysis.replayable import communicates, refusals
from wrapper_ir.analysis.streams import stream_of

_HOST = (ir.Comment, ir.Define, ir.AssertExpr, ir.AssertLayout, ir.Barrier, ir.Free, ir.Drop)
"""Ops without work on the device."""
_NAME = re.compile(r"[%@][^\s:]+")
_NO_WORK = (*_HOST, ir.View, ir.AllocStorage, ir.Slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionOptions:
    """Options of `find_regions`.

    `least` is the minimum number of ops with work in a region. `collectives` allows them in regions.
    `unbacked` allows regions to depend on sizes that are known only at run time. `own_memory` excludes
    operators that allocate (`own_memory.py`).
    """

    least: int = 2
    collectives: bool = False
    unbacked: bool = False
    own_memory: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """The ops of `main` from `start` up to `stop` (exclusive), whose work is on `device`."""

    start: int
    stop: int
    device: ir.Device


@dataclass(frozen=True, slots=True)
class Split:
    """An op that is not captured, with the reason."""

    position: int
    why: str


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of `main` in order, and the ops between them."""

    regions: tuple[Region, ...]
    splits: tuple[Split, ...]

    @property
    def reasons(self) -> Mapping[str, int]:
        """The number of ops that each reason excludes, the most frequent first; names in reasons are replaced
        by `...`."""
        return dict(Counter(_NAME.sub("...", split.why) for split in self.splits).most_common())


def find_regions(analyses: Analyses, options: RegionOptions) -> Regions:
    """The largest regions of `main`. Frees and drops are ignored."""
    return _Finder(analyses, options).regions()


def region_symbols(op: ir.Op, analyses: Analyses) -> Set[str]:
    """The symbols that an op, the types of its values, or its callees depend on."""
    symbols: set[str] = set()
    for e in ir.exprs(op):
        symbols |= e.free_symbols
    for value in (*ir.operands(op), *ir.results(op)):
        symbols |= ir.type_symbols(value.type)
    for name in ir.callees(op):
        if name in analyses.functions:
            symbols.update(analyses.functions[name].captures)
    return symbols


class _Finder:
    def __init__(self, analyses: Analyses, options: RegionOptions) -> None:
        self.analyses, self.options = analyses, options
        self.function: ir.Function = analyses.program.main
        self.body = self.function.body
        self.aliasing = analyses.aliasing(self.function)
        self.constants = analyses.constant_values
        self.refused: dict[int, str] = {}
        self.definitions = {v: at for at, op in enumerate(self.body) for v in ir.results(op)}
        self.defined = {op.symbol: at for at, op in self.function.positions_of(ir.Define)}
        self.last: dict[ir.Value, int] = {}
        for at, op in enumerate(self.body):
            if not isinstance(op, ir.EndOp):
                self.last |= dict.fromkeys(ir.operands(op), at)

    def regions(self) -> Regions:
        """Excludes ops until every remaining region is valid."""
        self._refuse_alone()
        while True:
            candidates = list(self._runs())
            refused = {at: why for region in candidates for at, why in self._misfits(region)}
            if not refused:
                break
            self.refused |= refused
        regions = []
        for region in candidates:
            work = [at for at in range(region.start, region.stop) if not isinstance(self.body[at], _NO_WORK)]
            if len(work) >= self.options.least:
                regions.append(region)
            else:
                self.refused |= dict.fromkeys(work, f"fewer than {self.options.least} ops stand together")
        splits = [Split(at, why) for at, why in sorted(self.refused.items()) if self._counts(at)]
        return Regions(tuple(regions), tuple(splits))

    def _counts(self, at: int) -> bool:
        match op := self.body[at]:
            case ir.CallSubgraph():
                return not self.analyses.functions[op.function].replayable
            case ir.Return() | ir.AllocStorage() | ir.View() | ir.Drop() | ir.Free():
                return False
            case _:
                return True

    # --- reasons that concern one op

    def _refuse_alone(self) -> None:
        scopes: list[bool] = []
        for at, op in enumerate(self.body):
            why = self._reason(op, at)
            match op:
                case ir.EnterMemoryPool():
                    scopes.append(True)
                case ir.EnterProfile():
                    scopes.append(False)
                case ir.ExitScope() if scopes:
                    scopes.pop()
            if why is None and any(scopes):
                why = "memory comes from a pool of the process"
            if why is not None:
                self.refused[at] = why

    def _reason(self, op: ir.Op, at: int) -> str | None:
        match op:
            case ir.Return():
                return "the end"
            case ir.EnterProfile() | ir.ExitScope():
                return "a scope of profilers begins or ends here"
            case ir.RecordEvent() | ir.WaitEvent():
                return "it is work of several streams"
            case _ if stream_of(op):
                return "it is work of several streams"
            case _:
                pass
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
            if callee.replayable:
                return f"@{name} is captured by itself"
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

    # --- reasons that concern a region

    def _runs(self) -> Iterator[Region]:
        """Runs of ops on one device without a refusal, trimmed of ops without work on the device."""
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
        """Ops that cannot be part of this region because of its arguments or results."""
        for at in range(region.start, region.stop):
            op = self.body[at]
            if isinstance(op, ir.Define):
                inside = [v for v in ir.operands(op) if self.definitions.get(v, -1) >= region.start]
                if inside:
                    yield at, f"{op.symbol} is read from a result"
            for value in () if isinstance(op, ir.EndOp) else ir.operands(op):
                if value not in self.constants and self.definitions.get(value, -1) < region.start:
                    why = _unfit_argument(op, value)
                    if why:
                        yield at, why
            for value in ir.results(op):
                if self.last.get(value, -1) >= region.stop:
                    why = self._unfit_result(op, value, region)
                    if why:
                        yield at, why

    def _unfit_result(self, op: ir.Op, value: ir.Value, region: Region) -> str:
        """The reason why a value that is used after the region cannot be its result; "" if it can."""
        if ir.is_storage(value):
            uses = (o for o in self.body[region.stop : self.last[value] + 1] if value in ir.operands(o))
            is_viewed = not isinstance(op, ir.Slot) and all(isinstance(o, ir.View | ir.EndOp) for o in uses)
            return "" if is_viewed else f"%{value.name} is a pool of several regions"
        if isinstance(value.type, ir.TupleType | ir.OpaqueType):
            return f"%{value.name} is not a tensor, and used after it"
        roots = self.aliasing.roots.get(value, NO_ROOTS)
        if any(r in self.aliasing.hosts and self.definitions.get(r, -1) >= region.start for r in roots):
            return f"%{value.name} lies in a pool of several regions"
        while isinstance(op, ir.View):  # a view of an argument can be created before the region
            at = self.definitions.get(op.source, -1)
            if at < region.start:
                return ""
            op = self.body[at]
        if all(region.start <= self.definitions.get(r, -1) < region.stop for r in roots):
            return ""
        return f"%{value.name} is memory from before it"


def _unfit_argument(op: ir.Op, value: ir.Value) -> str:
    """The reason why an op of a region cannot use a value from before it; "" if it can."""
    if ir.is_storage(value) and not isinstance(op, ir.View):
        return f"%{value.name} is a pool of several regions"
    if isinstance(value.type, ir.TupleType | ir.OpaqueType):
        return f"%{value.name} is not a tensor, and made before it"
    return ""

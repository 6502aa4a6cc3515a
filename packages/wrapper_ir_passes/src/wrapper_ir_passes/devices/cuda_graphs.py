"""Outlines replayable regions into functions, which a run captures once and then replays."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence, Set
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Int
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.analysis.regions import Region, RegionOptions, Regions, find_regions, region_symbols
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees, strip_frees
from wrapper_ir_passes.cleanup.new_names import NewNames

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class CudaGraphs(Pass):
    """Outlines each region of main that a device can capture into a replayable function.

    A graph depends on the symbols that a function captures, and on its numbers. `least` is the minimum
    number of ops with work in a region. `collectives` are captured if the caller asserts that all processes
    replay alike. `unbacked` lets a region depend on sizes that are known at run time only, with one graph
    for each. `own_memory` excludes operators that allocate, which C++ libraries do not capture. `donated`
    moves donated arguments of main into a region if nothing uses them afterwards. Frees and drops are derived
    again. Run it before `plan-memory`, which then gives each region separate pools.
    """

    name: ClassVar[str] = "cuda-graphs"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    least: int = 2
    collectives: bool = False
    unbacked: bool = False
    own_memory: bool = False
    donated: bool = False

    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the program with a replayable function for each region of main; log level INFO reports the
        reasons for splits.
        """
        stripped = analyses.after(strip_frees(analyses.program))
        options = RegionOptions(
            least=self.least, collectives=self.collectives, unbacked=self.unbacked, own_memory=self.own_memory
        )
        regions = find_regions(stripped, options)
        _report(regions)
        if not regions.regions:
            return analyses.program
        program = _Outliner(stripped, donated=self.donated).outlined(regions.regions)
        return derive_frees(program)

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs with inlined regions."""
        names = {f.name for f in before.functions}
        return before, inline_regions(after, {f.name for f in after.functions} - names)


def _report(regions: Regions) -> None:
    _LOG.info("%d regions can be captured", len(regions.regions))
    for why, count in regions.reasons.items():
        _LOG.info("not captured, %d ops: %s", count, why)


def inline_regions(program: ir.Program, names: Set[str]) -> ir.Program:
    """Moves the functions with these names, which `CudaGraphs` created, back into main.

    Values keep their names.
    """
    bodies = {f.name: f.body[:-1] for f in program.functions if f.name in names}

    def body() -> Iterator[ir.Op]:
        for op in program.main.body:
            match op:
                case ir.CallSubgraph(function=name) if name in bodies:
                    yield from bodies[name]
                case _:
                    yield op

    rest = tuple(f for f in program.functions[1:] if f.name not in names)
    inlined = dataclasses.replace(program, functions=(program.main.with_body(body()), *rest))
    return derive_frees(inlined)


class _Outliner:
    def __init__(self, analyses: Analyses, *, donated: bool) -> None:
        self.analyses = analyses
        self.main = analyses.program.main
        self.aliasing = analyses.aliasing(self.main)
        owned = {p.value for p in self.main.params if p.ownership is ir.Ownership.OWNED}
        self.donated = owned if donated else set()
        self.body: list[ir.Op] = list(self.main.body)
        self.new = NewNames(self.main, analyses)
        self.functions = {f.name for f in analyses.program.functions}
        self.static = {p.value for p in self.main.params if p.static}
        """Roots that most calls find at one address."""

    def outlined(self, regions: Sequence[Region]) -> ir.Program:
        """Returns the program with a function for each of these regions."""
        names = [self._name() for _ in regions]
        # the last one first: positions before it stay what they are
        functions = [self._outline(region, name) for region, name in zip(reversed(regions), reversed(names))]
        functions.reverse()
        program = self.analyses.program
        main = self.main.with_body(self.body)
        return self._with_static_results(
            dataclasses.replace(program, functions=(main, *program.functions[1:], *functions))
        )

    def _outline(self, region: Region, name: str) -> ir.Function:
        ops = self.body[region.start : region.stop]
        after = self.body[region.stop :]
        used_after = {v for op in after for v in ir.operands(op)}
        before, inside = self._split(ops, used_after)
        defined = {v for op in inside for v in ir.results(op)}
        bases, after = self._bases(inside, after)
        inside += bases
        used_after = {v for op in after for v in ir.operands(op)}
        returned = [v for op in inside for v in ir.results(op) if ir.is_tensor(v) and v in used_after]
        args = self._arguments(inside, defined)
        captures = sorted({s for op in inside for s in region_symbols(op, self.analyses)})
        static, transfers = self._static(args, inside), self._given(args, after)
        ownership = dict.fromkeys(transfers, ir.Ownership.OWNED)
        function = ir.Function(
            name=name,
            params=tuple(
                ir.Param(value=v, static=v in static, ownership=ownership.get(v, ir.Ownership.BORROWED))
                for v in args
            ),
            captures=tuple(captures),
            body=(*inside, ir.Return(values=tuple(returned))),
            replayable=True,
        )
        call = ir.CallSubgraph(
            function=function.name, args=tuple(args), results=tuple(returned), prov=inside[0].prov
        )
        self.body[region.start :] = [*before, call, *after]
        return function

    def _split(self, ops: Sequence[ir.Op], used_after: Set[ir.Value]) -> tuple[list[ir.Op], list[ir.Op]]:
        """Splits ops into those to run before a region, and the rest.

        Before the region run definitions of symbols, and views of earlier memory that are used afterwards or
        that start at a storage.
        """
        results = {v for op in ops for v in ir.results(op)}
        views = [op for op in ops if isinstance(op, ir.View)]
        outer = [op for op in views if results.isdisjoint(self.aliasing.roots.get(op.result, NO_ROOTS))]
        early: set[ir.Value] = set()
        for view in reversed(outer):
            if view.result in used_after or view.result in early or ir.is_storage(view.source):
                early.update((view.result, view.source))
        outer_views = {view.result for view in outer}
        before: list[ir.Op] = []
        inside: list[ir.Op] = []
        for op in ops:
            match op:
                case ir.Define():
                    before.append(op)
                case ir.View(result=result) if result in outer_views:
                    # without a reuse: the storage still belongs to the caller
                    view = dataclasses.replace(op, mode=ir.ViewMode.ALIAS)
                    (before if result in early else inside).append(view)
                case _:
                    inside.append(op)
        return before, inside

    def _bases(self, inside: Sequence[ir.Op], after: Sequence[ir.Op]) -> tuple[list[ir.Op], list[ir.Op]]:
        """Returns views of all bytes of the region's storages from which later ops create tensors, and these
        ops.

        The ops use such a view instead of the storage.
        """
        storages = {v for op in inside for v in ir.results(op) if ir.is_storage(v)}
        bases: dict[ir.Value, ir.Value[ir.TensorType]] = {}
        changed: list[ir.Op] = []
        for op in after:
            match op:
                case ir.View(source=source) if source in storages and ir.is_storage(source):
                    if source not in bases:
                        type = ir.TensorType(
                            ir.DType.U8, (source.type.nbytes,), (Int(1),), source.type.device
                        )
                        bases[source] = ir.Value(self.new(f"{source.name}.bytes"), type)
                    changed.append(dataclasses.replace(op, source=bases[source]))
                case _:
                    changed.append(op)
        return [ir.View(source=_storage(s), result=base) for s, base in bases.items()], changed

    def _arguments(self, inside: Sequence[ir.Op], defined: Set[ir.Value]) -> list[ir.Value]:
        constants = self.analyses.constant_values
        uses = dict.fromkeys(v for op in inside for v in ir.operands(op))
        return [v for v in uses if v not in defined and v not in constants]

    def _given(self, args: Sequence[ir.Value], after: Sequence[ir.Op]) -> Set[ir.Value]:
        """The arguments that are moved into the region: donated to main, and used by nothing afterwards.

        They must not have another name in the region.
        """
        roots = [self.aliasing.roots.get(v, NO_ROOTS) for v in args]
        uses = {
            root for op in after for v in ir.operands(op) for root in self.aliasing.roots.get(v, NO_ROOTS)
        }
        return {
            v
            for v, of in zip(args, roots)
            if v in self.donated and v not in uses and sum(v in other for other in roots) == 1 and of == (v,)
        }

    def _static(self, args: Sequence[ir.Value], inside: Sequence[ir.Op]) -> Set[ir.Value]:
        """The arguments that are bound by address: those in static memory, and those that share memory which
        the region writes.
        """
        counts: dict[ir.Value, int] = {}
        for value in args:
            for root in self.aliasing.roots.get(value, NO_ROOTS):
                counts[root] = counts.get(root, 0) + 1
        writes = {
            root
            for op in inside
            for value in op.effects(self.analyses).writes
            for root in self.aliasing.roots.get(value, NO_ROOTS)
        }
        together = {root for root in writes if counts.get(root, 0) > 1}
        static_args = set()
        for value in args:
            roots = self.aliasing.roots.get(value, NO_ROOTS)
            if roots and (self.static.issuperset(roots) or not together.isdisjoint(roots)):
                static_args.add(value)
        return static_args

    def _with_static_results(self, program: ir.Program) -> ir.Program:
        """Marks parameters for results of replayable functions as static: a replay returns them at unchanged
        addresses.
        """
        analyses = Analyses(program)
        replayable = {f.name for f in program.functions if f.replayable}
        results: set[ir.Value] = set()
        static: dict[str, set[int]] = {}
        aliasing = analyses.aliasing(program.main)
        for op in program.main.ops_of(ir.CallSubgraph):
            if op.function in replayable:
                roots = [aliasing.roots.get(a, NO_ROOTS) if ir.is_tensor(a) else NO_ROOTS for a in op.args]
                static[op.function] = {i for i, of in enumerate(roots) if of and results.issuperset(of)}
                results.update(op.results)

        def changed(function: ir.Function) -> ir.Function:
            which = static.get(function.name, set())
            params = [
                dataclasses.replace(p, static=p.static or i in which) for i, p in enumerate(function.params)
            ]
            return dataclasses.replace(function, params=tuple(params)) if which else function

        return program.with_functions(changed(f) for f in program.functions)

    def _name(self) -> str:
        name = next(
            f"graph_{n}" for n in range(len(self.functions) + 1) if f"graph_{n}" not in self.functions
        )
        self.functions.add(name)
        return name


def _storage(value: ir.Value) -> ir.Value[ir.StorageType]:
    assert ir.is_storage(value)
    return value

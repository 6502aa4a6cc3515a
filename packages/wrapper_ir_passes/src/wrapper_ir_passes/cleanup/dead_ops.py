"""Removes ops whose results and writes nothing uses."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import derive_frees, strip_frees


@dataclasses.dataclass(frozen=True)
class EliminateDeadOps(Pass):
    """Removes ops without observable effects, and derives lifetimes again.

    Ops that results need are kept. So are ops with effects beyond memory (random state, checks, host input
    and output, order, collectives), writes to parameters and constants, and comments. With `definitions`,
    functions, kernels and operators without references are removed, too.
    """

    name: ClassVar[str] = "eliminate-dead-ops"
    definitions: bool = True

    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the smaller program; makes one backward pass over each function."""
        after = analyses.after(strip_frees(analyses.program))
        after = after.after(
            after.program.with_functions([_live_part(f, after) for f in after.program.functions])
        )
        if self.definitions:
            after = after.after(without_unused_definitions(after))
        return derive_frees(after.program, after)


class _Needs:
    """Values, storage contents and symbols that later live ops of a function need."""

    def __init__(self, function: ir.Function, analyses: Analyses, aliasing: Aliasing) -> None:
        self.analyses = analyses
        self.roots = aliasing.roots
        self.values: set[ir.Value] = set()
        self.symbols: set[str] = set()
        # Callers see writes to their arguments and to constants.
        self.contents: set[ir.Value] = set(analyses.constant_values)
        self.contents |= {p.value for p in function.params if p.ownership is ir.Ownership.BORROWED}
        self.contents |= aliasing.escaped

    def is_live(self, op: ir.Op, effects: ir.Effects) -> bool:
        """Returns whether an op is live."""
        match op:
            case ir.Return() | ir.Comment():
                return True
            case ir.Define(symbol=symbol):
                return symbol in self.symbols
            case _ if effects.classes or not self.values.isdisjoint(ir.results(op)):
                return True
            case _:
                roots = (root for v in effects.writes for root in self.roots.get(v, NO_ROOTS))
                return any(root in self.contents for root in roots)

    def add(self, op: ir.Op, effects: ir.Effects) -> None:
        """Marks an op as live, and its operands too."""
        match op:
            case ir.Return():
                reads = ir.operands(op)
            case _:
                reads = effects.reads
        self.values.update(ir.operands(op))
        for value in reads:
            self.contents.update(self.roots.get(value, NO_ROOTS))
        for e in ir.exprs(op):
            self.symbols |= e.free_symbols
        for value in ir.results(op):
            self.symbols |= ir.type_symbols(value.type)
        for name in ir.callees(op):
            function = self.analyses.functions.get(name)
            self.symbols.update(function.captures if function is not None else ())


def _binds(op: ir.Define) -> ir.Value | None:
    """The value that alone defines the symbol, with the symbol in its type. The define lives as long as that
    value.
    """
    values = ir.free_values(op.expr)
    value = next(iter(values)) if len(values) == 1 else None
    return value if value is not None and op.symbol in ir.type_symbols(value.type) else None


def _live_part(function: ir.Function, analyses: Analyses) -> ir.Function:
    aliasing = analyses.aliasing(function)
    needs = _Needs(function, analyses, aliasing)
    live_ops: dict[int, ir.Op] = {}
    binders: dict[ir.Value, dict[int, ir.Op]] = {}
    for position in range(len(function.body) - 1, -1, -1):
        op, effects = function.body[position], aliasing.effects[position]
        if needs.is_live(op, effects):
            needs.add(op, effects)
            live_ops[position] = op
            for value in ir.results(op):
                live_ops |= binders.get(value, {})
            continue
        match op:
            case ir.Define() if (bound := _binds(op)) is not None:
                binders.setdefault(bound, {})[position] = op
            case _:
                pass
    return function.with_body(live_ops[position] for position in sorted(live_ops))


def without_unused_definitions(analyses: Analyses) -> ir.Program:
    """Removes definitions without references. Constants stay: their data is in the artifact."""
    program = analyses.program
    reached = {program.main.name: program.main} if program.functions else {}
    pending = list(reached.values())
    kernels: set[str] = set()
    targets: set[str] = set()
    while pending:
        function = pending.pop()
        kernels.update(op.kernel for op in function.ops_of(ir.Launch))
        targets.update(op.target for op in function.ops_of(ir.CallExtern, ir.CollectiveStart))
        for name in (name for _, op in ir.calling_ops(function.body) for name in ir.callees(op)):
            if name in analyses.functions and name not in reached:
                reached[name] = analyses.functions[name]
                pending.append(reached[name])
    smaller = program.with_functions(f for f in program.functions if f.name in reached)
    rest = (ir.needed(program.kernels, kernels), tuple(e for e in program.externs if e.name in targets))
    if rest == (program.kernels, program.externs):
        return smaller
    return dataclasses.replace(smaller, kernels=rest[0], externs=rest[1])

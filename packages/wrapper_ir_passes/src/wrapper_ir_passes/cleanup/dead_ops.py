"""Removes ops whose results and writes nothing uses."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.ir import ops
from wrapper_ir.ir.atoms import free_values
from wrapper_ir.ir.kernels import needed
from wrapper_ir.ir.layout import type_symbols
from wrapper_ir.ir.program import Function, Ownership, Program
from wrapper_ir.ir.structure import callees, exprs, operands, results
from wrapper_ir.ir.values import Value
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import derive_frees, strip_frees


@dataclasses.dataclass(frozen=True)
class EliminateDeadOps(Pass):
    """Removes ops without effect on results, arguments, constants or the outside world, and derives lifetimes again.

    Kept are ops with effects beyond memory (random state, checks, host input and output, order, collectives), writes
    to parameters and constants, and comments. With `definitions`, functions, kernels and operators that nothing
    refers to any more go too.
    """

    name: ClassVar[str] = "eliminate-dead-ops"
    definitions: bool = True

    def transform(self, analyses: Analyses) -> Program:
        """The smaller program; one backward pass over each function."""
        found = analyses.after(strip_frees(analyses.program))
        found = found.after(
            found.program.with_functions([_live_part(f, found) for f in found.program.functions])
        )
        if self.definitions:
            found = found.after(without_unused_definitions(found))
        return derive_frees(found.program, found)


class _Needs:
    """What later live ops of a function need: values by name, contents of storages, symbols."""

    def __init__(self, function: Function, analyses: Analyses, aliasing: Aliasing) -> None:
        self.analyses = analyses
        self.roots = aliasing.roots
        self.values: set[Value] = set()
        self.symbols: set[str] = set()
        # The caller sees what is written to its own arguments and to constants.
        self.contents: set[Value] = set(analyses.constant_values)
        self.contents |= {p.value for p in function.params if p.ownership is Ownership.BORROWED}
        self.contents |= aliasing.escaped

    def holds(self, op: ops.Op, written: tuple[Value, ...]) -> bool:
        """Whether `op` makes something that is needed."""
        if isinstance(op, ops.Define):
            return op.symbol in self.symbols
        if any(r in self.values for r in results(op)):
            return True
        return any(root in self.contents for v in written for root in self.roots.get(v, NO_ROOTS))

    def add(self, op: ops.Op, read: tuple[Value, ...]) -> None:
        """`op` stays: so does what it uses."""
        self.values.update(operands(op))
        for value in (*read, *(operands(op) if isinstance(op, ops.Return) else ())):
            self.contents.update(self.roots.get(value, NO_ROOTS))
        for e in exprs(op):
            self.symbols |= e.free_symbols
        for value in results(op):
            self.symbols |= type_symbols(value.type)
        for name in callees(op):
            function = self.analyses.functions.get(name)
            self.symbols.update(function.captures if function is not None else ())


def _binds(op: ops.Define) -> Value | None:
    """The value whose type mentions the symbol and that alone defines it; such a define lives as long as the value."""
    values = free_values(op.expr)
    value = next(iter(values)) if len(values) == 1 else None
    return value if value is not None and op.symbol in type_symbols(value.type) else None


def _live_part(function: Function, analyses: Analyses) -> Function:
    aliasing = analyses.aliasing(function)
    needs = _Needs(function, analyses, aliasing)
    kept: dict[int, ops.Op] = {}
    binders: dict[Value, dict[int, ops.Op]] = {}
    for position in range(len(function.body) - 1, -1, -1):
        op, effects = function.body[position], aliasing.effects[position]
        if effects.classes or isinstance(op, ops.Return | ops.Comment) or needs.holds(op, effects.writes):
            needs.add(op, effects.reads)
            kept[position] = op
            for value in results(op):
                kept |= binders.get(value, {})
        elif isinstance(op, ops.Define) and (bound := _binds(op)) is not None:
            binders.setdefault(bound, {})[position] = op
    return function.with_body(kept[position] for position in sorted(kept))


def without_unused_definitions(analyses: Analyses) -> Program:
    """Without definitions that nothing refers to. Constants stay: their data is in the artifact."""
    program = analyses.program
    reached = {program.main.name: program.main} if program.functions else {}
    pending = list(reached.values())
    kernels: set[str] = set()
    targets: set[str] = set()
    while pending:
        for op in pending.pop().body:
            if isinstance(op, ops.Launch):
                kernels.add(op.kernel)
            elif isinstance(op, ops.CallExtern | ops.CollectiveStart):
                targets.add(op.target)
            for name in callees(op):
                if name in analyses.functions and name not in reached:
                    reached[name] = analyses.functions[name]
                    pending.append(reached[name])
    smaller = program.with_functions(f for f in program.functions if f.name in reached)
    left = (
        needed(program.kernels, kernels),
        tuple(e for e in program.externs if e.name in targets),
    )
    if left == (program.kernels, program.externs):
        return smaller
    return dataclasses.replace(smaller, kernels=left[0], externs=left[1])

"""Reorders ops to lower the peak of memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.errors import ExpressionError
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.analysis.contents import in_place_pairs
from wrapper_ir_passes.analysis.dependencies import Dependencies, Step, dependencies_of
from wrapper_ir_passes.analysis.memory import MemoryUse, callee_use, memory_use
from wrapper_ir_passes.analysis.temporaries.table import temporaries
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees, strip_frees
from wrapper_ir_passes.planner import OrderProblem, SharedBuffer, Task, lower_peak


@dataclasses.dataclass(frozen=True)
class ReorderForMemory(Pass):
    """Reorders ops to lower the peak of memory, and derives lifetimes again.

    Ops keep their order if one writes memory that the other uses, or if both draw random numbers. Nothing
    moves past ops with other effects: checks, definitions of symbols, events, collectives, scopes, operators
    with effects beyond their schema. A function keeps its order unless its live bytes and its bound, under
    the symbols' hints, do not increase and one of them decreases. Allocations and views move right before
    their first use, and unused ones are removed. Functions with pools, debug values, or storages that change
    keep their order. At most `steps` thousand steps are spent on each function.
    """

    name: ClassVar[str] = "reorder-for-memory"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs
    steps: int = 200

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with another order of ops."""
        derived = analyses.after(derive_frees(analyses.program, analyses))
        stripped = derived.after(strip_frees(derived.program))
        for name in [f.name for f in derived.program.functions]:
            function = derived.functions[name]
            changed = _reordered(stripped.functions[name], stripped, self.steps)
            if changed is not None:
                functions = [changed if f is function else f for f in derived.program.functions]
                tried = derived.after(derive_frees(derived.program.with_functions(functions)))
                if _is_lower(_use(tried, name), _use(derived, name)):
                    derived = tried
        return derived.program


def _hints(analyses: Analyses) -> Sizes:
    """Returns one assignment for all functions, under which the memory of each is computed once."""
    return Sizes(analyses.program)


def _use(analyses: Analyses, name: str) -> MemoryUse:
    return memory_use(analyses.functions[name], analyses, analyses.get(_hints))


def _is_lower(new: MemoryUse, old: MemoryUse) -> bool:
    return new.bound <= old.bound and new.live <= old.live and (new.bound, new.live) != (old.bound, old.live)


def _reordered(function: ir.Function, analyses: Analyses, steps: int) -> ir.Function | None:
    """Returns the function in another order; None if it keeps its order."""
    if function.has(ir.DebugValue, ir.ForeignMemory, ir.Slot):
        return None
    dependencies = dependencies_of(function, analyses)
    try:
        problem = _problem(function, analyses, dependencies.steps)
    except ExpressionError:
        return None  # a size has no value under the hints: the peak is unknown
    order = lower_peak(problem, 1_000 * steps)
    if order == tuple(range(len(order))):
        return None
    return function.with_body(_body(function, dependencies, order))


def _problem(function: ir.Function, analyses: Analyses, steps: Sequence[Step]) -> OrderProblem:
    """The steps as tasks, the function's storages as buffers."""
    live = analyses.get_for(function, analyse_liveness)
    crossing = analyses.get_for(function, crossing_streams)
    sizes = analyses.get(_hints)
    users: dict[ir.Value, dict[int, None]] = {root: {} for root in live.aliasing.owned}
    for at, step in enumerate(steps):
        for op in (function.body[position] for position in step.ops):
            for value in (*ir.operands(op), *ir.results(op)):
                for root in live.aliasing.roots.get(value, NO_ROOTS):
                    if root in users:
                        users[root][at] = None
    number = {root: at for at, root in enumerate(users)}
    tasks = []
    for step in steps:
        inside, over = 0, []
        for op in (function.body[position] for position in step.ops):
            match op:
                case ir.CallSubgraph() | ir.Switch() | ir.WhileLoop():
                    inside += callee_use(op, analyses, sizes).live
                case ir.CallExtern() | ir.Launch():
                    over += [
                        (number[new], number[old])
                        for one, two in in_place_pairs(op, analyses)
                        for new in live.aliasing.roots.get(one, NO_ROOTS)
                        for old in live.aliasing.roots.get(two, NO_ROOTS)
                        if new in number and old in number and new is not old
                    ]
                case _:
                    pass
        tasks.append(Task(step.after, inside, tuple(over)))
    buffers = [
        SharedBuffer(sizes.bytes_of(root), tuple(positions), live.aliasing.owned[root] < 0, root in crossing)
        for root, positions in users.items()
    ]
    scratch = temporaries(function, sizes)
    for at, step in enumerate(steps):
        inside = sum(scratch.get(position, 0) for position in step.ops)
        buffers += [SharedBuffer(inside, (at,))] if inside else []
    return OrderProblem(tuple(tasks), tuple(buffers))


def _body(function: ir.Function, dependencies: Dependencies, order: Sequence[int]) -> Iterator[ir.Op]:
    """The ops in the new order, allocations and views right before their first use."""
    names: set[ir.Value] = set()
    for step in order:
        for position in dependencies.steps[step].ops:
            op = function.body[position]
            uses: set[int] = set()
            pending = list(ir.operands(op))
            for value in pending:
                if value in dependencies.names and value not in names:
                    names.add(value)
                    uses.add(dependencies.names[value])
                    pending += ir.operands(function.body[dependencies.names[value]])
            yield from (function.body[at] for at in sorted(uses))
            yield op

"""Moves storages into callees if the caller no longer needs them, so that callees can free them earlier or
reuse them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.replayable import replayed_functions
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees, strip_frees

ParamKey = tuple[str, int]
"""A parameter: its function's name, and its position."""


@dataclasses.dataclass(frozen=True)
class MoveArguments(Pass):
    """Makes parameters owned if every call passes a separate storage that ends with the call.

    Such an argument is moved: the callee, not the caller, frees it after its last use, or reuses it. Never
    moved are parameters of `main`, of loop functions and of captured functions, constants, and borrowed
    parameters. Neither are values that may alias, are used again, are passed twice, or are returned by the
    callee. Both branches of a conditional own the same parameters. Frees and drops are derived again.
    """

    name: ClassVar[str] = "move-arguments"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with as many owned parameters as there can be."""
        bare = analyses.after(strip_frees(analyses.program))
        if len(bare.program.functions) > 1:
            bare = _moved(bare)
        return derive_frees(bare.program, bare)


def move_arguments(program: ir.Program) -> ir.Program:
    """`MoveArguments` with its default options."""
    return MoveArguments().run(program)


def _moved(analyses: Analyses) -> Analyses:
    """Finds the largest set of parameters that can become owned together.

    Starts with all, and removes those that a call refuses until nothing changes. A refused parameter is no
    longer its function's own storage, which may exclude further parameters.
    """
    owned = _candidates(analyses)
    while True:
        after = analyses.after(_owning(analyses.program, owned))
        refused = {place for f in after.program.functions for place in _refused(f, after)} & owned
        if not refused:
            return after
        owned -= refused


def _candidates(analyses: Analyses) -> set[ParamKey]:
    """Returns borrowed parameters of called functions, except of those called by loops or captured.

    Parameters that are returned are excluded.
    """
    program = analyses.program
    callees = {name for op in program.ops_of(ir.Switch, ir.CallSubgraph) for name in ir.callees(op)}
    loops = {name for op in program.ops_of(ir.WhileLoop) for name in ir.callees(op)}
    fixed = {program.main.name, *loops, *analyses.get(replayed_functions)}
    params: set[ParamKey] = set()
    for name in (callees - fixed) & analyses.functions.keys():
        origins = analyses.summary(name).results
        returned = {i for origin in origins if origin is not None for i in origin.params}
        for i, param in enumerate(analyses.functions[name].params):
            if ir.is_tensor(param.value) and _borrowed(param) and i not in returned:
                params.add((name, i))
    return params


def _owning(program: ir.Program, owned: set[ParamKey]) -> ir.Program:
    """The program with these parameters owned as well."""

    def function(f: ir.Function) -> ir.Function:
        if not any((f.name, i) in owned for i in range(len(f.params))):
            return f
        params = tuple(
            dataclasses.replace(p, ownership=ir.Ownership.OWNED) if (f.name, i) in owned else p
            for i, p in enumerate(f.params)
        )
        return dataclasses.replace(f, params=params)

    return program.with_functions(function(f) for f in program.functions)


def _borrowed(param: ir.Param) -> bool:
    return param.ownership is ir.Ownership.BORROWED


def _refused(function: ir.Function, analyses: Analyses) -> Iterator[ParamKey]:
    """Parameters of callees that a call in this function cannot move its argument into, and those that only
    one branch owns.
    """
    aliasing = analyses.aliasing(function)
    last: dict[ir.Value, int] = {}
    shared: set[ir.Value] = set(aliasing.escaped)
    for position, op in enumerate(function.body):
        for value in (*ir.operands(op), *ir.results(op)):
            for root in aliasing.roots.get(value, NO_ROOTS):
                last[root] = position
    for start in function.ops_of(ir.CollectiveStart):
        for value in (*ir.operands(start), *start.results):
            shared.update(aliasing.roots.get(value, NO_ROOTS))
    for position, op in function.positions_of(ir.Switch, ir.CallSubgraph):
        roots = [r for v in ir.operands(op) for r in aliasing.roots.get(v, NO_ROOTS)]
        functions = [analyses.functions[name] for name in ir.callees(op) if name in analyses.functions]
        for i, arg in enumerate(op.args):
            own = _own_root(arg, aliasing)
            good = own is not None and own not in shared and last[own] == position and roots.count(own) == 1
            if not good or len({_borrowed(f.params[i]) for f in functions if i < len(f.params)}) > 1:
                yield from ((f.name, i) for f in functions)


def _own_root(arg: ir.Arg, aliasing: Aliasing) -> ir.Value | None:
    """The function's own storage that is known to contain an argument, or None."""
    if not ir.is_tensor(arg) or arg in aliasing.uncertain:
        return None
    roots = aliasing.roots.get(arg, NO_ROOTS)
    return roots[0] if len(roots) == 1 and roots[0] in aliasing.owned else None

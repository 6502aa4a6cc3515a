"""Control flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wrapper_ir import ir
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.constants import used_constants
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import FunctionPlan, Step


def _plan(name: str, state: FunctionState) -> FunctionPlan:
    plan = state.program.plan_of(name)
    if plan is None:
        exists = name in state.program.analyses.functions
        raise state.invalid(f"@{name} calls itself" if exists else f"the program has no function @{name}")
    for symbol in plan.function.captures:
        if symbol not in state.defined:
            raise state.invalid(f"@{name} captures {symbol}, which is not defined here")
    return plan


def _moved(
    function: ir.Function, args: tuple[ir.Arg, ...], state: FunctionState
) -> tuple[ir.Value[ir.Type], ...]:
    """Ends the names of values that are moved into a function."""
    moved = [
        arg
        for param, arg in zip(function.params, args)
        if param.ownership is ir.Ownership.OWNED and isinstance(arg, ir.Value)
    ]
    return state.end(dict.fromkeys(m for value in moved for m in state.tenants(value)))


def _define(results: Iterable[ir.Value[ir.Type]], state: FunctionState) -> None:
    for result in results:
        state.define(result)


def call_subgraph(op: ir.CallSubgraph, state: FunctionState) -> Iterator[Step]:
    """A call."""
    callee = _plan(op.function, state)
    moved = _moved(callee.function, op.args, state)
    _define(op.results, state)
    yield steps.Call(function=callee, args=op.args, results=op.results, moved=moved, at=state.at)


def switch(op: ir.Switch, state: FunctionState) -> Iterator[Step]:
    """A call of one of several functions, which own the same parameters."""
    branches = tuple(_plan(name, state) for name in op.branches)
    moved = _moved(branches[0].function, op.args, state)
    _define(op.results, state)
    yield steps.Switch(
        index=op.index,
        branches=branches,
        args=op.args,
        results=op.results,
        is_two_way=ir.is_two_way(op),
        reads_index=isinstance(op.index, ir.Value) and ir.is_tensor(op.index),
        moved=moved,
        at=state.at,
    )


def while_loop(op: ir.WhileLoop, state: FunctionState) -> Iterator[Step]:
    """Lowers a loop, with the results that are known to have separate memory."""
    condition, body = _plan(op.cond_fn, state), _plan(op.body_fn, state)
    _define(op.results, state)
    yield steps.Loop(
        condition=condition,
        body=body,
        carried=op.carried,
        captured=op.captured,
        results=op.results,
        fresh=_fresh_returns(body.function, state),
        constants=used_constants(body.function, state.program.analyses),
        stacked=op.stacked,
        at=state.at,
    )


def _fresh_returns(function: ir.Function, state: FunctionState) -> tuple[bool, ...]:
    """Returns whether each result of a function surely has a storage that nothing else shares."""
    aliasing = state.program.analyses.aliasing(function)
    shared: set[ir.Value] = set()
    fresh: list[bool] = []
    for value in function.returns.values:
        if not isinstance(value, ir.Value):
            fresh.append(True)
            continue
        roots = aliasing.roots.get(value, ())
        own = bool(roots) and value not in aliasing.uncertain
        own = own and all(root in aliasing.owned and root not in shared for root in roots)
        shared.update(roots)
        fresh.append(own)
    return tuple(fresh)


def return_(op: ir.Return, state: FunctionState) -> Iterator[Step]:
    """Returns the values."""
    yield steps.Return(values=op.values, at=state.at)

"""Control flow as torch's higher-order operators over submodules.

A submodule takes the function's parameters, then the symbols that the function captures.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from fx_converter import targets
from fx_converter.effects import does_more
from fx_converter.graph.scope import Callee, FunctionScope
from wrapper_ir.ops import Arg, CallSubgraph, Return, Switch, WhileLoop, is_two_way
from wrapper_ir.program import Function
from wrapper_ir.structure import callees as called_by
from wrapper_ir.structure import operands as operands_of
from wrapper_ir.types import ScalarType, TensorType
from wrapper_ir.values import Value

__all__ = ["call_subgraph", "return_", "switch", "while_loop"]


def _function(name: str, scope: FunctionScope) -> Function:
    function = scope.program.analyses.functions.get(name)
    if function is None:
        raise scope.invalid(f"the program has no function @{name}")
    return function


def _captures(functions: list[Function], scope: FunctionScope) -> tuple[str, ...]:
    """The symbols that any of these captures; all of them take them all."""
    captured = tuple(dict.fromkeys(symbol for function in functions for symbol in function.captures))
    for symbol in captured:
        if symbol not in scope.symbols:
            names = ", ".join(f"@{f.name}" for f in functions)
            raise scope.invalid(f"{names} captures {symbol}, which is not defined here")
    return captured


def _operands(args: tuple[Arg, ...], captures: tuple[str, ...], scope: FunctionScope) -> list[Any]:
    """Arguments, and behind them the captured symbols. Any: nodes and numbers."""
    return [*(scope.argument(arg) for arg in args), *(scope.symbols[symbol] for symbol in captures)]


def _bind_results(made: fx.Node, values: tuple[Value, ...], fakes: list[Any], scope: FunctionScope) -> None:
    for number, (value, val) in enumerate(zip(values, fakes, strict=True)):
        scope.bind(value, operator.getitem, made, number, val=val)


def call_subgraph(op: CallSubgraph, scope: FunctionScope) -> None:
    """`invoke_subgraph`."""
    function = _function(op.function, scope)
    fakes = [scope.fake(result) for result in op.results]
    captures = _captures([function], scope)
    operands = _operands(op.args, captures, scope)
    module = scope.module(Callee(function.name, captures))
    plain = torch.ops.higher_order.invoke_subgraph
    target = targets.invoke_effect if does_more(op, scope.program.analyses) else plain
    made = scope.call(target, module, op.function, *operands, val=tuple(fakes))
    _bind_results(made, op.results, fakes, scope)


def switch(op: Switch, scope: FunctionScope) -> None:
    """`cond` for a bool, else a function of ours. All branches take the symbols that any of them captures."""
    functions = [_function(name, scope) for name in op.branches]
    index = scope.argument(op.index)
    if isinstance(op.index, Value) and isinstance(op.index.type, TensorType):
        index = _scalar(index, op.index.type, scope)
    fakes = [scope.fake(result) for result in op.results]
    captures = _captures(functions, scope)
    operands = _operands(op.args, captures, scope)
    branches = [scope.module(Callee(function.name, captures)) for function in functions]
    target = _branching(op, does_more(op, scope.program.analyses))
    made = scope.call(target, index, *branches, tuple(operands), val=tuple(fakes))
    _bind_results(made, op.results, fakes, scope)


def _branching(op: Switch, effect: bool) -> Callable[..., Any]:
    """What runs a switch."""
    if is_two_way(op):
        return targets.cond_effect if effect else torch.ops.higher_order.cond
    return targets.switch_effect if effect else targets.switch


def _scalar(node: fx.Node, type: TensorType, scope: FunctionScope) -> fx.Node:
    """An index or a predicate without dimensions, which the operator wants."""
    if not type.sizes:
        return node
    flat = TensorType(dtype=type.dtype, sizes=(), strides=(), device=type.device)
    return scope.call(torch.ops.aten.view.default, node, [], val=scope.program.fakes.tensor(flat))


def while_loop(op: WhileLoop, scope: FunctionScope) -> None:
    """`while_loop`, or `while_loop_stack_output`. Its results may live where its operands do: `unshared` copies those."""
    functions = [_function(op.cond_fn, scope), _function(op.body_fn, scope)]
    carried = [scope.argument(arg) for arg in op.carried]
    captures = _captures(functions, scope)
    captured = _operands(op.captured, captures, scope)
    fakes = [scope.fake(result) for result in op.results]
    callees = (Callee(op.cond_fn, captures, condition=True), Callee(op.body_fn, captures))
    modules = [scope.module(callee) for callee in callees]
    target = _loop(op, does_more(op, scope.program.analyses))
    made = scope.call(target, *modules, tuple(carried), tuple(captured), val=tuple(fakes))
    if not op.stacked:
        others = [*carried, *captured, *_constants(op.body_fn, scope)]
        tensors = [x for x in others if isinstance(x, fx.Node)]
        made = scope.call(targets.unshared, made, tensors, val=fakes)
    _bind_results(made, op.results, fakes, scope)


def _loop(op: WhileLoop, effect: bool) -> Callable[..., Any]:
    """What runs a loop."""
    loops = torch.ops.higher_order
    if not op.stacked:
        return targets.loop_effect if effect else loops.while_loop
    if any(isinstance(value.type, ScalarType) for value in op.results):
        return targets.stacked_loop
    return targets.stacked_effect if effect else loops.while_loop_stack_output


def _constants(name: str, scope: FunctionScope) -> list[fx.Node]:
    """The constants that a function or its callees use: its results may live in them."""
    found: dict[Value, None] = {}
    waiting, seen = [name], {name}
    while waiting:
        for op in scope.program.analyses.functions[waiting.pop()].body:
            found.update(dict.fromkeys(v for v in operands_of(op) if v in scope.program.constants))
            waiting += [c for c in called_by(op) if c not in seen]
            seen.update(called_by(op))
    return [scope.value(value) for value in found]


def return_(op: Return, scope: FunctionScope) -> None:
    """The output: a tuple, or a condition."""
    if scope.callee.condition:
        (value,) = op.values
        go = scope.argument(value)
        if isinstance(value, Value) and isinstance(value.type, TensorType):
            go = _scalar(go, value.type, scope)
        scope.node("output", "output", (go,), {}, "output", go.meta["val"] if isinstance(go, fx.Node) else go)
        return
    results = tuple(scope.argument(value) for value in op.values)
    vals = tuple(x.meta["val"] if isinstance(x, fx.Node) else x for x in results)
    scope.node("output", "output", (results,), {}, "output", vals)

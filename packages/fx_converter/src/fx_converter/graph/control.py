"""Control flow as torch's higher-order operators over submodules.

A submodule takes the function's parameters, then the symbols that the function captures.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import fx

from fx_converter import targets
from fx_converter.effects import does_more
from fx_converter.graph.scope import Callee, FunctionScope
from fx_converter.nodes import Argument, Target, fake_of
from wrapper_ir import ir
from wrapper_ir_lowering import FunctionPlan
from wrapper_ir_lowering.steps import Call, Loop, Return, Switch


def _captures(*functions: FunctionPlan) -> tuple[str, ...]:
    """Returns the symbols that any of the functions captures. Each of them takes them all."""
    return tuple(dict.fromkeys(symbol for plan in functions for symbol in plan.function.captures))


def _operands(args: tuple[ir.Arg, ...], captures: tuple[str, ...], scope: FunctionScope) -> list[Argument]:
    """Returns the arguments, followed by the captured symbols."""
    return [*(scope.argument(arg) for arg in args), *(scope.symbols[symbol] for symbol in captures)]


def _bind_results(
    node: fx.Node, values: tuple[ir.Value, ...], fakes: Sequence[object], scope: FunctionScope
) -> None:
    for number, (value, val) in enumerate(zip(values, fakes, strict=True)):
        scope.bind(value, operator.getitem, node, number, val=val)


def call(step: Call, scope: FunctionScope) -> None:
    """Calls `invoke_subgraph`, or `replay` of a function that a device can capture."""
    name, captures = step.function.name, _captures(step.function)
    fakes = [scope.fake(result) for result in step.results]
    operands = _operands(step.args, captures, scope)
    module = scope.module(Callee(name, captures))
    effect = does_more(scope.op, scope.program.analyses)
    facts = step.function.replay
    target: Target
    if facts is not None and scope.program.direct:
        target = targets.replay_effect if effect else targets.replay
        positions = facts.tensors, facts.static, facts.written, facts.given
        head = (name, str(facts.device), len(step.args), *positions)
        node = scope.call(target, head, module, name, *operands, val=tuple(fakes))
    else:
        plain = torch.ops.higher_order.invoke_subgraph
        target = targets.invoke_effect if effect else plain
        node = scope.call(target, module, name, *operands, val=tuple(fakes))
    _bind_results(node, step.results, fakes, scope)


def switch(step: Switch, scope: FunctionScope) -> None:
    """Calls `cond` for a bool, else `targets.switch`. All branches take the symbols that any of them
    captures."""
    index = scope.argument(step.index)
    if ir.is_tensor(step.index):
        index = _scalar(scope.value(step.index), step.index.type, scope)
    fakes = [scope.fake(result) for result in step.results]
    captures = _captures(*step.branches)
    operands = _operands(step.args, captures, scope)
    branches = [scope.module(Callee(branch.name, captures)) for branch in step.branches]
    target = _branching(step, does_more(scope.op, scope.program.analyses))
    node = scope.call(target, index, *branches, tuple(operands), val=tuple(fakes))
    _bind_results(node, step.results, fakes, scope)


def _branching(step: Switch, effect: bool) -> Target:
    """Returns the target of a switch."""
    if step.is_two_way:
        return targets.cond_effect if effect else torch.ops.higher_order.cond
    return targets.switch_effect if effect else targets.switch


def _scalar(node: fx.Node, type: ir.TensorType, scope: FunctionScope) -> fx.Node:
    """Returns an index or a predicate as a tensor without dimensions, which the operator requires."""
    if not type.sizes:
        return node
    flat = ir.TensorType(dtype=type.dtype, sizes=(), strides=(), device=type.device)
    return scope.call(torch.ops.aten.view.default, node, [], val=scope.program.fakes.tensor(flat))


def loop(step: Loop, scope: FunctionScope) -> None:
    """Calls `while_loop`, or `while_loop_stack_output`. Its results may alias its operands: `unshared` copies
    those."""
    carried = [scope.argument(arg) for arg in step.carried]
    captures = _captures(step.condition, step.body)
    captured = _operands(step.captured, captures, scope)
    fakes = [scope.fake(result) for result in step.results]
    condition = Callee(step.condition.name, captures, condition=True)
    modules = [scope.module(callee) for callee in (condition, Callee(step.body.name, captures))]
    target = _loop(step, does_more(scope.op, scope.program.analyses))
    node = scope.call(target, *modules, tuple(carried), tuple(captured), val=tuple(fakes))
    if not step.stacked:
        others = [*carried, *captured, *map(scope.value, step.constants)]
        tensors = [x for x in others if isinstance(x, fx.Node)]
        node = scope.call(targets.unshared, node, tensors, val=fakes)
    _bind_results(node, step.results, fakes, scope)


def _loop(step: Loop, effect: bool) -> Target:
    """Returns the target of a loop."""
    loops = torch.ops.higher_order
    if not step.stacked:
        return targets.loop_effect if effect else loops.while_loop
    if any(ir.is_scalar(value) for value in step.results):
        return targets.stacked_loop
    return targets.stacked_effect if effect else loops.while_loop_stack_output


def return_(step: Return, scope: FunctionScope) -> None:
    """Adds the output: a tuple, or a condition."""
    if scope.callee.condition:
        (value,) = step.values
        condition = scope.argument(value)
        if ir.is_tensor(value):
            condition = _scalar(scope.value(value), value.type, scope)
        scope.node("output", "output", (condition,), {}, "output", fake_of(condition))
        return
    results = tuple(scope.argument(value) for value in step.values)
    vals = tuple(map(fake_of, results))
    scope.node("output", "output", (results,), {}, "output", vals)

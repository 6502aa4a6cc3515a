"""Writes control flow. Functions are called with a list of arguments, which they empty, and their captured
symbols."""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import targets, tuple_text
from wrapper_ir import ir
from wrapper_ir_lowering import FunctionPlan
from wrapper_ir_lowering.steps import Call, Loop, Return, Switch


def _boxed_args(args: tuple[ir.Arg, ...], moved: tuple[ir.Value, ...], scope: FunctionScope) -> str:
    """Returns the list of arguments. If some are moved, it gets a variable, so that no other variable keeps
    them alive."""
    text = f"[{', '.join(scope.arg(arg) for arg in args)}]"
    if not moved:
        return text
    box = scope.names("moved")
    scope.out.line(f"{box} = {text}")
    scope.forget(moved)
    return box


def _call_text(function: FunctionPlan, box: str, scope: FunctionScope) -> str:
    captured = "".join(f", {scope.defined[symbol]}" for symbol in function.function.captures)
    names = scope.module.function_names
    callee = scope.module.replay_names.get(function.name, names[function.name])
    return f"{callee}({box}{captured})"


def call(step: Call, scope: FunctionScope) -> None:
    box = _boxed_args(step.args, step.moved, scope)
    names = [scope.bind(result) for result in step.results]
    scope.out.line(f"{targets(names)}{_call_text(step.function, box, scope)}")


def switch(step: Switch, scope: FunctionScope) -> None:
    """Writes `if` over calls."""
    index = scope.arg(step.index)
    if step.reads_index:
        index = f"{index}.item()"
    if not step.is_two_way or step.moved:
        variable = scope.names("taken")
        scope.out.line(f"{variable} = {index}")
        index = variable
    box = _boxed_args(step.args, step.moved, scope)
    head = targets([scope.bind(result) for result in step.results])
    for position, branch in enumerate(step.branches):
        with scope.out.block(_case(step, index, position)):
            scope.out.line(f"{head}{_call_text(branch, box, scope)}")
    if not step.is_two_way:
        with scope.out.block("else:"):
            fail = scope.module.runtime("fail_branch")
            scope.out.line(f"{fail}({index}, {len(step.branches)})")


def _case(step: Switch, index: str, position: int) -> str:
    """Returns the head of the block that calls the branch at this position."""
    if step.is_two_way:
        return "else:" if position else f"if {index}:"
    return f"{'elif' if position else 'if'} {index} == {position}:"


def loop(step: Loop, scope: FunctionScope) -> None:
    """Writes `while` over calls. The values of a trip are released after the next one."""
    initial = [scope.arg(arg) for arg in step.carried]
    captured = [scope.arg(arg) for arg in step.captured]
    results = [scope.bind(result) for result in step.results]
    box = f"[{', '.join([*results, *captured])}]"
    if results:
        scope.out.line(f"{', '.join(results)} = {', '.join(initial)}")
    trips = scope.names("trips") if step.stacked else ""
    if trips:
        scope.out.line(f"{trips} = []")
    with scope.out.block(f"while {_call_text(step.condition, box, scope)}[0]:"):
        scope.out.line(f"{targets(results)}{_call_text(step.body, box, scope)}")
        if trips:
            clones = tuple_text([_cloned(r, n) for r, n in zip(step.results, results)])
            scope.out.line(f"{trips}.append({clones})")
    if trips:
        stack = scope.module.helper(Helper.STACK)
        scope.out.line(f"{targets(results)}{stack}({trips} or [{tuple_text(results)}])")
        scope.out.line(f"del {trips}")
    else:
        _make_fresh(step, results, initial, scope)


def _cloned(result: ir.Value, name: str) -> str:
    return f"{name}.clone()" if ir.is_tensor(result) else name


def _make_fresh(step: Loop, results: list[str], initial: list[str], scope: FunctionScope) -> None:
    """Copies results that may alias initial values, also if no trip runs."""
    for value, name, start, surely in zip(step.results, results, initial, step.fresh):
        if not ir.is_tensor(value):
            continue
        clone = scope.module.helper(Helper.CLONE)
        if surely:
            with scope.out.block(f"if {name} is {start}:  # no trip was made"):
                scope.out.line(f"{name} = {clone}({name})")
        else:
            scope.out.line(f"{name} = {clone}({name})")


def return_(step: Return, scope: FunctionScope) -> None:
    """Returns the results in a tuple."""
    texts = [scope.arg(value) for value in step.values]
    scope.out.tuple("return ", texts)

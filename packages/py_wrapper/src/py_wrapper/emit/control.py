"""Writes control flow: functions are called with a list of arguments, which they empty, and their captured symbols."""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import targets, tuple_text
from py_wrapper.errors import EmitError
from wrapper_ir.ops import Arg, CallSubgraph, Return, Switch, WhileLoop, is_two_way
from wrapper_ir.program import Function, Ownership
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = ["call_subgraph", "return_", "switch", "while_loop"]


def _function(name: str, scope: FunctionScope) -> Function:
    function = scope.module.analyses.functions.get(name)
    if function is None:
        raise EmitError("PY101", f"the program has no function @{name}", scope)
    return function


def _moved(function: Function, args: tuple[Arg, ...]) -> list[Value]:
    return [
        arg
        for param, arg in zip(function.params, args)
        if param.ownership is Ownership.OWNED and isinstance(arg, Value)
    ]


def _boxed_args(function: Function, args: tuple[Arg, ...], scope: FunctionScope) -> str:
    """The list of arguments. Where some are moved, it gets a variable, so that nothing here keeps them alive."""
    text = f"[{', '.join(scope.arg(arg) for arg in args)}]"
    moved = _moved(function, args)
    if not moved:
        return text
    box = scope.names("moved")
    scope.out.line(f"{box} = {text}")
    scope.forget(dict.fromkeys(m for value in moved for m in scope.storage_members(value)))
    return box


def _captured(function: Function, scope: FunctionScope) -> str:
    for symbol in function.captures:
        if symbol not in scope.defined:
            raise EmitError("PY101", f"@{function.name} captures {symbol}, which is not defined here", scope)
    return "".join(f", {scope.defined[symbol]}" for symbol in function.captures)


def _call_text(function: Function, box: str, scope: FunctionScope) -> str:
    return f"{scope.module.function_names[function.name]}({box}{_captured(function, scope)})"


def call_subgraph(op: CallSubgraph, scope: FunctionScope) -> None:
    """A call."""
    function = _function(op.function, scope)
    box = _boxed_args(function, op.args, scope)
    names = [scope.bind(result) for result in op.results]
    scope.out.line(f"{targets(names)}{_call_text(function, box, scope)}")


def switch(op: Switch, scope: FunctionScope) -> None:
    """`if` over calls; the index is read before its tensor may be moved."""
    branches = [_function(name, scope) for name in op.branches]
    index = scope.arg(op.index)
    if isinstance(op.index, Value) and isinstance(op.index.type, TensorType):
        index = f"{index}.item()"
    if not is_two_way(op) or _moved(branches[0], op.args):
        taken = scope.names("taken")
        scope.out.line(f"{taken} = {index}")
        index = taken
    box = _boxed_args(branches[0], op.args, scope)
    head = targets([scope.bind(result) for result in op.results])
    for position, branch in enumerate(branches):
        with scope.out.block(_case(op, index, position)):
            scope.out.line(f"{head}{_call_text(branch, box, scope)}")
    if not is_two_way(op):
        with scope.out.block("else:"):
            scope.out.line(f"{scope.module.runtime('fail_branch')}({index}, {len(branches)})")


def _case(op: Switch, index: str, position: int) -> str:
    """The head of the block that calls the branch at this position."""
    if is_two_way(op):
        return "else:" if position else f"if {index}:"
    return f"{'elif' if position else 'if'} {index} == {position}:"


def while_loop(op: WhileLoop, scope: FunctionScope) -> None:
    """`while` over calls. What a trip carried is released when the next one has been made."""
    cond, body = _function(op.cond_fn, scope), _function(op.body_fn, scope)
    initial = [scope.arg(arg) for arg in op.carried]
    captured = [scope.arg(arg) for arg in op.captured]
    results = [scope.bind(result) for result in op.results]
    box = f"[{', '.join([*results, *captured])}]"
    if results:
        scope.out.line(f"{', '.join(results)} = {', '.join(initial)}")
    trips = scope.names("trips") if op.stacked else ""
    if trips:
        scope.out.line(f"{trips} = []")
    with scope.out.block(f"while {_call_text(cond, box, scope)}[0]:"):
        scope.out.line(f"{targets(results)}{_call_text(body, box, scope)}")
        if trips:
            scope.out.line(
                f"{trips}.append({tuple_text([_cloned(r, n, scope) for r, n in zip(op.results, results)])})"
            )
    if trips:
        stack = scope.module.helper(Helper.STACK)
        scope.out.line(f"{targets(results)}{stack}({trips} or [{tuple_text(results)}])")
        scope.out.line(f"del {trips}")
    else:
        _make_fresh(op, body, results, initial, scope)


def _cloned(result: Value, name: str, scope: FunctionScope) -> str:
    return f"{name}.clone()" if isinstance(result.type, TensorType) else name


def _make_fresh(
    op: WhileLoop, body: Function, results: list[str], initial: list[str], scope: FunctionScope
) -> None:
    """Results have storages of their own, also where no trip was made."""
    surely = _fresh_returns(body, scope)
    for position, (value, name) in enumerate(zip(op.results, results)):
        if not isinstance(value.type, TensorType):
            continue
        clone = scope.module.helper(Helper.CLONE)
        if surely[position]:
            with scope.out.block(f"if {name} is {initial[position]}:  # no trip was made"):
                scope.out.line(f"{name} = {clone}({name})")
        else:
            scope.out.line(f"{name} = {clone}({name})")


def _fresh_returns(function: Function, scope: FunctionScope) -> list[bool]:
    """For each result of a function, whether it surely has a storage that it shares with nothing."""
    aliasing = scope.module.analyses.aliasing(function)
    taken: set[Value] = set()
    fresh: list[bool] = []
    for value in function.returns.values:
        if not isinstance(value, Value):
            fresh.append(True)
            continue
        roots = aliasing.roots.get(value, ())
        own = bool(roots) and value not in aliasing.uncertain
        own = own and all(root in aliasing.ours and root not in taken for root in roots)
        taken.update(roots)
        fresh.append(own)
    return fresh


def return_(op: Return, scope: FunctionScope) -> None:
    """Results in a tuple."""
    texts = [scope.arg(value) for value in op.values]
    scope.out.tuple("return ", texts)

"""Structural access to ops: results, operands, expressions, and rebuilding with other values.

Derived from the roles in the annotations of ops (`wrapper_ir.ir.ops.spec`): complete by construction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, assert_never

from wrapper_ir.expr import Expr
from wrapper_ir.ir.atoms import map_expr_values, values_in
from wrapper_ir.ir.ops import Op
from wrapper_ir.ir.ops.base import Arg, OpBase
from wrapper_ir.ir.ops.control import CallSubgraph, Switch, WhileLoop
from wrapper_ir.ir.ops.spec import op_spec
from wrapper_ir.ir.program import Function
from wrapper_ir.ir.values import Value

OpT = TypeVar("OpT", bound=OpBase)


def results(op: OpBase) -> tuple[Value, ...]:
    """The values that `op` defines, in order."""
    return tuple(v for field in op_spec(type(op)).results for v in field.values(op))


def definitions(function: Function) -> tuple[Value, ...]:
    """The values that `function` defines: its parameters, then the results of its ops, in order."""
    return (*(p.value for p in function.params), *(v for op in function.body for v in results(op)))


def operands(op: OpBase) -> tuple[Value, ...]:
    """The values that `op` uses, in the order of its fields, with atoms of expressions and repetitions."""
    out: list[Value] = []
    for field in op_spec(type(op)).inputs:
        values_in(field.get(op), out)
    return tuple(out)


def is_used(value: Value, ops: Iterable[OpBase]) -> bool:
    """Returns whether one of the ops uses the value."""
    return any(value in operands(op) for op in ops)


def exprs(op: OpBase) -> tuple[Expr, ...]:
    """All expressions that `op` evaluates, without those of its result types."""
    out: list[Expr] = []
    for field in op_spec(type(op)).nested:
        _exprs(field.get(op), out)
    return tuple(out)


def _exprs(content: object, out: list[Expr]) -> None:
    if type(content) is tuple:
        for item in content:
            _exprs(item, out)
    elif isinstance(content, Expr):
        out.append(content)


def map_values(
    op: OpT,
    use: Callable[[Value], Value],
    define: Callable[[Value], Value] | None = None,
    expr: Callable[[Expr], Expr] | None = None,
) -> OpT:
    """`op` with every operand replaced by `use(operand)` and, if given, every result by `define(result)` and
    every expression by `expr(expression)`; without `expr`, the values in expressions are operands."""
    spec = op_spec(type(op))
    change = expr or (lambda e: map_expr_values(e, use))
    changes = {f.name: _map(f.get(op), use, change) for f in spec.inputs}
    if define is not None:
        changes |= {f.name: _map(f.get(op), define, change) for f in spec.results}
    replace: Callable[..., OpT] = dataclasses.replace  # each field keeps its own type, which `_map` preserves
    return replace(op, **changes)


def _map(content: object, use: Callable[[Value], Value], change: Callable[[Expr], Expr]) -> object:
    if type(content) is Value:
        return use(content)
    if type(content) is tuple:
        return tuple([_map(item, use, change) for item in content])
    return change(content) if isinstance(content, Expr) else content


def map_function(
    function: Function, value: Callable[[Value], Value], expr: Callable[[Expr], Expr] | None = None
) -> Function:
    """Returns `function` with every value, in definitions and uses, replaced by `value(old)`; `expr` is as in
    `map_values`."""
    params = tuple(dataclasses.replace(p, value=value(p.value)) for p in function.params)
    body = tuple(map_values(op, value, value, expr) for op in function.body)
    return dataclasses.replace(function, params=params, body=body)


def calling_ops(body: Sequence[Op]) -> Iterator[tuple[int, Op]]:
    """The ops that call functions of the program, with their positions."""
    calling = {cls for cls in set(map(type, body)) if op_spec(cls).callees}
    if calling:
        yield from ((position, op) for position, op in enumerate(body) if type(op) in calling)


def callees(op: OpBase) -> tuple[str, ...]:
    """Names of the program's functions that `op` calls."""
    out: list[str] = []
    for field in op_spec(type(op)).callees:
        value = field.get(op)
        out += value if type(value) is tuple else (str(value),)
    return tuple(out)


def callee_name(op: OpBase) -> str:
    """Name of the kernel or operator that `op` calls; '' for other ops."""
    fields = op_spec(type(op)).outside
    return str(fields[0].get(op)) if fields else ""


def callees_first(name: str, functions: Mapping[str, Function], is_done: Callable[[str], bool]) -> list[str]:
    """A function and those that it calls, directly or not, each after its callees; those that are done, and
    their callees, are left out. Calls may nest deeper than the stack of Python."""
    order: list[str] = []
    started: set[str] = set()
    waiting = [(name, False)]
    while waiting:
        current, is_ready = waiting.pop()
        if is_ready:
            order.append(current)
        elif current not in started and current in functions and not is_done(current):
            started.add(current)
            waiting.append((current, True))
            body = functions[current].body
            waiting += [(callee, False) for _, op in calling_ops(body) for callee in callees(op)]
    return order


def call_args(op: CallSubgraph | Switch | WhileLoop) -> tuple[Arg, ...]:
    """The arguments of the functions that `op` calls."""
    match op:
        case WhileLoop(carried=carried, captured=captured):
            return (*carried, *captured)
        case CallSubgraph(args=args) | Switch(args=args):
            return args
        case _:
            assert_never(op)

"""Checks of a captured program on its arguments: all assumptions of the trace, in its terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import sympy
import torch
from torch import fx

from inductor_frontend.convert import to_expr
from inductor_frontend.errors import ConversionError
from inductor_frontend.guards.function_guards import FunctionGuards
from inductor_frontend.guards.input_symbols import Fact, check_ranges, range_of, sources_of
from inductor_frontend.guards.trace_guards import TraceGuards
from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import (
    Apply,
    Bool,
    Expr,
    Int,
    Interval,
    Operator,
    SymKind,
    add,
    eq,
    ge,
    prove_eq,
    prove_le,
    prove_nonneg,
)
from wrapper_ir.expr import operators as ops

_OUTSIDE = "the inputs are outside what the model was captured for"


def check_inputs(
    guards: FunctionGuards, facts: list[Fact], params: Mapping[str, ir.Value], traced: TraceGuards
) -> None:
    """Appends the checks on the parameters of `main` that layout checks do not cover.

    `params` maps Inductor's names to parameters. The checks are: ranges of symbols, numbers that are constant
    or equal to others, storage offsets that the program depends on, Inductor's guards, and the guards of the
    trace.
    """
    assert traced.promised is not None
    defined = sources_of(facts)
    ranges = check_ranges(guards, defined, traced.promised)
    _check_numbers(guards, facts, defined)
    _check_offsets(guards, {name: v for name, v in params.items() if name not in traced.windows})
    _check_replaced(guards, params, traced)
    for condition in _conditions(guards, traced.conditions):
        if not _proven(condition, ranges):
            guards.assert_that(condition, _OUTSIDE, ir.UNKNOWN)


def check_all_layouts(guards: FunctionGuards, params: Iterable[ir.Value]) -> None:
    """Appends layout checks of the parameters that no node uses: results may be views of them."""
    if guards.options.layout_asserts:
        for value in params:
            guards.assert_layout(value)


def check_left_over(guards: FunctionGuards) -> None:
    """Appends deferred assertions that Inductor did not emit, if all of their symbols are defined.

    Inductor waits for a node that computes the last symbol, but that may be the size of an input.
    """
    if guards.graph.is_backward:
        return  # checked in the forward program
    for assertions in guards.graph.ras_by_symbol.values():
        for assertion in assertions:
            if all(s.name in guards.symbols.defined for s in assertion.expr.free_symbols):
                guards.assert_that(_convert(assertion.expr), "", ir.UNKNOWN)


def check_no_negative(guards: FunctionGuards, at: int) -> None:
    """Inserts at position `at` the checks that no tensor has a negative size.

    Inductor assumes that sizes are positive, so a size derived from them may be negative for an empty input.
    """
    ranges = {s.name: range_of(guards.symbols.declare(s)) for s in guards.symbols.defined.values()}
    before, guards.function.ops[at:] = guards.function.ops[at:], []
    early = {op.symbol for op in guards.function.ops if isinstance(op, ir.Define)}
    tensors = (v for op in before for v in ir.results(op) if ir.is_tensor(v))
    sizes = dict.fromkeys(e for v in tensors for e in v.type.sizes)
    for size in sizes:
        if size.free_symbols and size.free_symbols <= early and not prove_nonneg(size, ranges):
            guards.assert_that(ge(size, 0), "a size would be negative", ir.UNKNOWN)
    guards.function.ops += before


# --- numbers and offsets


def _check_numbers(guards: FunctionGuards, facts: list[Fact], defined: Mapping[str, Fact]) -> None:
    """Checks numbers that the trace specialized, or found equal to another number or size."""
    for fact in facts:
        if isinstance(fact.atom, ir.Item) and defined.get(str(fact.expr)) is not fact:
            message = f"input {fact.value.name} is not what the model was captured for"
            _check_atom(guards, fact, guards.symbols.expr(fact.expr), message)


def _check_offsets(guards: FunctionGuards, params: Mapping[str, ir.Value]) -> None:
    """Checks storage offsets of inputs that the model views by `as_strided`.

    `as_strided` has an absolute offset, from which Inductor subtracts the captured offset of the input.
    """
    roots = set(_offset_roots(guards))
    for name, offset in guards.graph.input_offsets().items() if roots else ():
        if name in roots and name in params:
            fact = Fact(params[name], sympy.sympify(offset), ir.OffsetOf(params[name]))
            message = f"the storage offset of input {name} is not what the model was captured for"
            if not fact.expr.free_symbols:
                _check_atom(guards, fact, to_expr(fact.expr), message)


def _offset_roots(guards: FunctionGuards) -> Iterator[str]:
    """Yields the names of the inputs that the graph views by `as_strided` with an offset."""
    graph = guards.graph.module.graph
    assert isinstance(graph, fx.Graph)
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default):
        if len(node.args) < 4 and node.kwargs.get("storage_offset") is None:
            continue
        root = node.args[0]
        while isinstance(root, fx.Node) and root.op == "call_function" and root.args:
            root = root.args[0]
        if isinstance(root, fx.Node) and root.op == "placeholder":
            yield root.name


def _check_atom(guards: FunctionGuards, fact: Fact, expected: Expr, message: str) -> None:
    kind = expected.kind
    suffix = "offset" if isinstance(fact.atom, ir.OffsetOf) else "value"
    guards.function.prov = ir.Provenance(frontend_name=fact.value.name)
    symbol = guards.symbols.define(ir.SymbolDef(name=f"{fact.value.name}_{suffix}", kind=kind), fact.atom)
    guards.assert_that(eq(symbol, expected), message)


# --- guards


def _check_replaced(guards: FunctionGuards, params: Mapping[str, ir.Value], traced: TraceGuards) -> None:
    """Appends the model's assertions on sizes that Inductor has replaced by others.

    Layout checks cover them, but without the author's messages.
    """
    for check in guards.model_checks.spoken:
        symbols = sorted(check.condition.free_symbols, key=str)
        missing = [s for s in symbols if s.name not in guards.symbols.defined]
        places = [traced.places.get(s.name) for s in missing]
        if not missing or not all(place is not None and place.input in params for place in places):
            continue
        for symbol, place in zip(missing, places, strict=True):
            assert place is not None
            value = params[place.input]
            guards.function.prov = ir.Provenance(frontend_name=value.name)
            guards.symbols.define(
                symbol, (ir.SizeOf if place.what == "size" else ir.StrideOf)(value, place.dim)
            )
        guards.assert_that(_convert(check.condition), "", ir.UNKNOWN)


def _conditions(guards: FunctionGuards, traced: Sequence[sympy.Basic]) -> Iterator[Expr]:
    """Yields Inductor's guards and those of the trace, on which its branches and the generated code rely."""
    env = guards.graph.sizevars.shape_env
    for expr in (*(guard.expr for guard in env.guards), *traced):
        if any(s.name not in guards.symbols.defined for s in expr.free_symbols):
            expr = env.replace(expr)
        yield _convert(expr)


def _convert(condition: sympy.Basic) -> Expr:
    try:
        return to_expr(condition)
    except ExpressionError as error:
        raise ConversionError(
            "FE304", f"the condition {condition} cannot be checked: {error.message}"
        ) from error


def _proven(condition: Expr, ranges: Mapping[str, Interval]) -> bool:
    """Returns whether a guard is true for all values in the declared ranges, which are checked."""
    match condition:
        case Bool(value):
            return value
        case Apply(ops.AND, args):
            return all(_proven(arg, ranges) for arg in args)
        case Apply(op, (lhs, rhs)) if op in ops.COMPARISONS and SymKind.FLOAT not in (lhs.kind, rhs.kind):
            return _proven_cmp(op, lhs, rhs, ranges)
        case _:
            return False


def _proven_cmp(op: Operator, a: Expr, b: Expr, ranges: Mapping[str, Interval]) -> bool:
    match op:
        case ops.EQ:
            return prove_eq(a, b)
        case ops.NE:
            return prove_le(add(a, Int(1)), b, ranges) or prove_le(add(b, Int(1)), a, ranges)
        case ops.LE:
            return prove_le(a, b, ranges)
        case ops.LT:
            return prove_le(add(a, Int(1)), b, ranges)
        case _:
            return _proven_cmp(ops.LE if op is ops.GE else ops.LT, b, a, ranges)

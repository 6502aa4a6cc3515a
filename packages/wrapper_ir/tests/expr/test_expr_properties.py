"""Properties of random expressions: text, evaluation, Python, rewriting, normal form."""

from __future__ import annotations

import copy
import math
import pickle
from contextlib import suppress

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from packages.wrapper_ir.tests.expr.python_text import compile_python

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import (
    OPERATORS,
    Bool,
    Expr,
    Float,
    Int,
    Number,
    Operator,
    Sym,
    SymKind,
    evaluate,
    print_expr,
    rebuild,
    substitute,
    to_python,
)
from wrapper_ir.expr import operators as ops

X = ir.Value("x", ir.TensorType(ir.DType.F32, (Int(4),), (Int(1),)))
KINDS = {"a": SymKind.INT, "b": SymKind.INT, "c": SymKind.INT, "f": SymKind.FLOAT, "p": SymKind.BOOL}
SMALL = st.integers(-12, 12)
ENVS = st.fixed_dictionaries({"a": SMALL, "b": SMALL, "c": SMALL, "f": st.floats(-8, 8), "p": st.booleans()})
INT_LEAVES = st.one_of(
    SMALL.map(Int), st.sampled_from([Sym("a"), Sym("b"), Sym("c")]), st.integers(-(2**70), 2**70).map(Int)
)
ATOMS = st.sampled_from([ir.SizeOf(X, 0), ir.StrideOf(X, 0), ir.OffsetOf(X), ir.Item(X)])
FLOAT_LEAVES = st.one_of(st.floats().map(Float), st.just(Sym("f", SymKind.FLOAT)))
BOOL_LEAVES = st.one_of(st.booleans().map(Bool), st.just(Sym("p", SymKind.BOOL)))
MIXED = ops.WHERE(Sym("f", SymKind.FLOAT), Float(0.0), Int(208065))
"""A float with an integral value, whose cube is rounded."""


CORE = tuple(op for op in OPERATORS.rows if op not in (*ops.COMPARISONS, *ops.CONVERSIONS, *ops.FUNCTIONS))
INT_OPS = (ops.ADD, ops.MUL, ops.FLOORDIV, ops.CEILDIV, ops.MOD, ops.MIN, ops.MAX)


def applied(op: Operator, inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.lists(inner, min_size=op.arity or 2, max_size=op.arity or 4).map(lambda args: op(*args))


def one_of(rows: tuple[Operator, ...], inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.sampled_from(rows).flatmap(lambda op: applied(op, inner))


def compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """Returns any node over `inner`, not simplified."""
    groups = (ops.COMPARISONS, ops.CONVERSIONS, ops.FUNCTIONS)
    power = st.builds(ops.POW, inner, st.integers(0, 3).map(Int))
    return st.one_of(*(applied(op, inner) for op in CORE), power, *(one_of(rows, inner) for rows in groups))


def int_compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        *(applied(op, inner) for op in INT_OPS),
        st.builds(ops.WHERE, one_of(ops.COMPARISONS, inner), inner, inner),
        st.builds(ops.POW, inner, st.integers(0, 3).map(Int)),
    )


ANY = st.recursive(st.one_of(INT_LEAVES, FLOAT_LEAVES, BOOL_LEAVES, ATOMS), compound, max_leaves=12)
CLOSED = st.recursive(st.one_of(INT_LEAVES, FLOAT_LEAVES, BOOL_LEAVES), compound, max_leaves=10)
INTS = st.recursive(
    st.one_of(SMALL.map(Int), st.sampled_from([Sym("a"), Sym("b"), Sym("c")])), int_compound, max_leaves=8
)


def outcome(e: Expr, env: dict[str, Number]) -> Number | None:
    try:
        return evaluate(e, env)
    except ExpressionError as error:
        if error.code not in ("WIR402", "WIR408"):
            raise
        return None


def same(a: Number, b: Number) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


@given(ANY)
@settings(max_examples=600, deadline=None)
def test_text_round_trip(e: Expr) -> None:
    text = print_expr(e)
    assert ir.parse_expr(text, KINDS, {"x": X}) is e


@given(ANY)
@settings(max_examples=100, deadline=None)
def test_copies_are_the_same_node(e: Expr) -> None:
    assert pickle.loads(pickle.dumps(e)) is e
    assert copy.deepcopy(e) is e


@given(CLOSED, ENVS)
@example(ops.POW(MIXED, Int(3)), {"a": 0, "b": 0, "c": 0, "f": 0.0, "p": False})
@settings(max_examples=400, deadline=None)
def test_python_source_agrees(e: Expr, env: dict[str, Number]) -> None:
    expected = outcome(e, env)
    if expected is None:
        return
    function = compile_python(e, tuple(KINDS))
    assert same(function(*(env[name] for name in KINDS)), expected), to_python(e)


@given(CLOSED, ENVS)
@settings(max_examples=400, deadline=None)
def test_simplification_keeps_the_value(e: Expr, env: dict[str, Number]) -> None:
    expected = outcome(e, env)
    if expected is None:
        return
    simple = simplified(e)
    assert simple.kind is e.kind, f"{e} -> {simple}"
    value = outcome(simple, env)
    assert value is not None, f"{e} -> {simple}"
    assert same(value, expected), f"{e} -> {simple}"


def simplified(e: Expr) -> Expr:
    return rebuild(e, tuple(map(simplified, e.args)))


@given(INTS)
@settings(max_examples=200, deadline=None)
def test_simplification_is_stable(e: Expr) -> None:
    once = simplified(e)
    assert simplified(once) is once


@given(INTS, INTS, ENVS)
@settings(max_examples=200, deadline=None)
def test_substitution_is_evaluation(e: Expr, value: Expr, env: dict[str, Number]) -> None:
    inner = outcome(value, env)
    replaced = outcome(substitute(e, {"a": value}), env)
    plain = outcome(substitute(e, {Sym("a"): value}, simplify=False), env)
    if inner is None:
        return
    expected = outcome(e, {**env, "a": inner})
    if expected is not None:
        assert replaced == expected
    assert plain == expected


@pytest.mark.slow
def test_every_node_and_operator_is_generated() -> None:
    """Checks that the strategies cover the union of nodes and the table of operators."""
    classes: set[object] = set()
    every = {*ir.NODE_TYPES, *OPERATORS.rows}

    class AllSeenError(Exception):
        """Ends the search."""

    @given(ANY)
    @settings(
        max_examples=3000,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    def collect(e: Expr) -> None:
        stack = [e]
        while stack:
            node = stack.pop()
            classes.update((type(node), node.op))
            stack.extend(node.args)
        if classes >= every:
            raise AllSeenError

    with suppress(AllSeenError):
        collect()
    assert classes >= every

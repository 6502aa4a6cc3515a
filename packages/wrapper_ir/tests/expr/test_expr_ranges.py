"""Normal form, bounds and proofs: required results, and soundness by sampling."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import (
    Expr,
    Int,
    Interval,
    Sym,
    SymKind,
    add,
    bounds,
    evaluate,
    expand,
    mul,
    print_expr,
    prove_eq,
    prove_le,
    prove_nonneg,
)
from wrapper_ir.expr import operators as ops

KINDS = {
    **dict.fromkeys(("a", "b", "c", "s0", "s1", "u0"), SymKind.INT),
    "f": SymKind.FLOAT,
    "p": SymKind.BOOL,
}
SIZES = {"s0": Interval(1, None), "s1": Interval(1, 1024), "u0": Interval(0, None)}


def parse(text: str) -> Expr:
    return ir.parse_expr(text, KINDS)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("(a + 1)*(a - 1)", "a*a - 1"),
        ("(a + b)**2 - a*a - 2*a*b", "b*b"),
        ("(4*a + 7)//4", "a + 1 + 3//4*0"),
        ("a % 4", "a - 4*(a//4)"),
        ("ceildiv(a, 4)", "(a + 3)//4"),
        ("a//2//3", "a//6"),
        ("(2*a + 5)//4", "(a + 2)//2"),
        ("a//-3", "(-a)//3"),
        ("ceildiv(a, -3)", "ceildiv(-a, 3)"),
        ("min(b, a + 0)", "min(a, b)"),
        ("a*min(b + b, 2*b)", "2*a*b"),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    assert expand(parse(text)) == expand(parse(normal))


def test_normal_form_as_an_expression() -> None:
    assert print_expr(expand(parse("(a + 1)*(b - 2) + a//1")).to_expr()) == "a*b - a + b - 2"
    assert print_expr(expand(parse("a - a")).to_expr()) == "0"
    assert print_expr(expand(parse("p + p")).to_expr()) == "2*p"


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ("ceildiv(a, 16)", "(a + 15)//16"),
        ("-((-a)//b)", "ceildiv(a, b)"),
        ("a % 8 + a//8*8", "a"),
        ("a % b", "a - a//b*b"),
        ("(a + 8) % 8", "a % 8"),
        ("4*((a + 3)//4)", "a + 3 - (a + 3) % 4"),
        ("max(a, b, a)", "max(b, a)"),
        ("(a + b)*(a - b)", "a*a - b*b"),
        ("a*64//64", "a"),
    ],
)
def test_equal(lhs: str, rhs: str) -> None:
    assert prove_eq(parse(lhs), parse(rhs))


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [("a", "b"), ("a//b*b", "a"), ("a//2 + a//2", "a"), ("f", "f"), ("nan", "nan"), ("2", "3")],
)
def test_not_proved_equal(lhs: str, rhs: str) -> None:
    assert not prove_eq(parse(lhs), parse(rhs))


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ("0", "0"),
        ("1", "s0"),
        ("s1", "1024"),
        ("s1*64", "65536"),
        ("s0", "s0*s1"),
        ("s0*64", "s0*s1*64"),
        ("u0", "u0*s0"),
        ("s0 + s1", "s0*s1 + 1"),
        ("s0//16*16", "s0"),
        ("s0", "ceildiv(s0, 16)*16"),
        ("s0", "(s0 + 15)//16*16"),
        ("ceildiv(s0, 16)*16", "s0 + 15"),
        ("s0//s1*s1", "s0"),
        ("s0*s1 - s1", "s0*s1"),
        ("s0 % 8", "7"),
        ("s0 % s1", "1023"),
        ("min(s0, 8)*4", "32"),
        ("min(s0, s1)", "s1"),
        ("s0", "max(s0, s1, 7)"),
        ("max(s0, s1)", "s0 + s1"),
        ("min(s0, s1)*s0", "s0*s1"),
        ("where(s0 < 5, s1, 3)", "1024"),
        ("(s0 - 1)*s1 + s1 - 1", "s0*s1 - 1"),
        ("s0//2 + s0//3", "s0"),
        ("s0//4", "s0//2"),
        ("ceildiv(s0, 16)", "ceildiv(s0 + 5, 16)"),
        ("s0//2*3 + 1", "s0*2"),
        ("0", "s0*s0 - 2*s0 + 1"),
        ("bit_and(s1, 7)", "7"),
        ("0", "abs(a)"),
    ],
)
def test_less_or_equal(lhs: str, rhs: str) -> None:
    assert prove_le(parse(lhs), parse(rhs), SIZES)


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ("2", "s0"),
        ("s0", "1024"),
        ("s0*s1", "s0"),
        ("a", "a*a - 1"),
        ("s0", "s0//16*16"),
        ("ceildiv(s0, 16)*16", "s0 + 14"),
        ("max(s0, s1)", "s1"),
        ("s0", "min(s0, s1)"),
        ("a//b*b", "a"),
        ("f", "f"),
        ("u0*a", "u0*s0"),
    ],
)
def test_not_proved_less_or_equal(lhs: str, rhs: str) -> None:
    assert not prove_le(parse(lhs), parse(rhs), SIZES)


@pytest.mark.parametrize(
    ("text", "lo", "hi"),
    [
        ("s1", 1, 1024),
        ("a", None, None),
        ("s0 + s1", 2, None),
        ("s1*-2", -2048, -2),
        ("s0*a", None, None),
        ("a*0", 0, 0),
        ("s1//16", 0, 64),
        ("ceildiv(s1, 16)", 1, 64),
        ("16//s1", 0, 16),
        ("-16//s1", -16, -1),
        ("a % 8", 0, 7),
        ("a % -8", -7, 0),
        ("min(s0, 5)", 1, 5),
        ("max(u0, 5)", 5, None),
        ("s1**2", 1, 1048576),
        ("a**2", 0, None),
        ("where(s1 <= 1024, 1, a)", 1, 1),
        ("where(s1 < 5, 1, 3)", 1, 3),
        ("s0 > 0 and s1 > 0", 1, 1),
        ("not s0 == 0", 1, 1),
        ("p", 0, 1),
        ("2.5", 2.5, 2.5),
        ("nan", None, None),
        ("ceil(s1 / 2)", 1, 512),
        ("floor(f)", None, None),
        ("f < f", 0, 1),
        ("bit_or(s1, 1)", 0, 2047),
        ("10**400 + 0.5", None, None),
    ],
)
def test_bounds(text: str, lo: float | None, hi: float | None) -> None:
    assert bounds(parse(text), SIZES) == Interval(lo, hi)


def test_an_empty_interval_is_refused() -> None:
    with pytest.raises(ExpressionError, match="WIR405"):
        Interval(2, 1)


NAMES = ("a", "b", "c")
LEAVES = st.one_of(st.integers(-6, 6).map(Int), st.sampled_from([Sym(name) for name in NAMES]))


def tuples(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[tuple[Expr, ...]]:
    return st.lists(inner, min_size=2, max_size=3).map(tuple)


def compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    comparison = st.builds(lambda op, a, b: op(a, b), st.sampled_from(ops.COMPARISONS), inner, inner)
    return st.one_of(
        tuples(inner).map(lambda args: ops.ADD(*args)),
        tuples(inner).map(lambda args: ops.MUL(*args)),
        st.builds(ops.FLOORDIV, inner, inner),
        st.builds(ops.CEILDIV, inner, inner),
        st.builds(ops.MOD, inner, inner),
        tuples(inner).map(lambda args: ops.MIN(*args)),
        tuples(inner).map(lambda args: ops.MAX(*args)),
        st.builds(ops.WHERE, st.one_of(comparison, comparison.map(ops.NOT)), inner, inner),
        st.builds(ops.POW, inner, st.integers(0, 3).map(Int)),
        st.builds(lambda x: ops.ABS(x), inner),
    )


EXPRS = st.recursive(LEAVES, compound, max_leaves=8)
ENDS = st.one_of(st.none(), st.integers(-6, 6))


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    lo, hi = draw(ENDS), draw(ENDS)
    return Interval(hi, lo) if lo is not None and hi is not None and lo > hi else Interval(lo, hi)


RANGES = st.fixed_dictionaries(dict.fromkeys(NAMES, intervals()))


def samples(ranges: dict[str, Interval], seed: int) -> list[dict[str, int]]:
    """Returns points inside the ranges: corners, near corners and far ones."""
    rng = random.Random(seed)

    def pick(interval: Interval) -> int:
        lo = -30 if interval.lo is None else int(interval.lo)
        hi = max(lo, 30) if interval.hi is None else int(interval.hi)
        lo = min(lo, hi) if interval.lo is None else lo
        return rng.choice((lo, hi, rng.randint(lo, hi)))

    return [{name: pick(interval) for name, interval in ranges.items()} for _ in range(12)]


def value_of(e: Expr, env: dict[str, int]) -> float | None:
    try:
        return evaluate(e, env)
    except ExpressionError:
        return None


@given(EXPRS, RANGES, st.integers(0, 1000))
@settings(max_examples=500, deadline=None)
def test_bounds_hold(e: Expr, ranges: dict[str, Interval], seed: int) -> None:
    interval = bounds(e, ranges)
    for env in samples(ranges, seed):
        value = value_of(e, env)
        assert value is None or value in interval, (print_expr(e), env, interval)


@given(EXPRS, RANGES, st.integers(0, 1000))
@settings(max_examples=700, deadline=None)
def test_proofs_hold(e: Expr, ranges: dict[str, Interval], seed: int) -> None:
    if not prove_nonneg(e, ranges):
        return
    for env in samples(ranges, seed):
        value = value_of(e, env)
        assert value is None or value >= 0, (print_expr(e), env)


@given(EXPRS, EXPRS, st.integers(0, 1000))
@settings(max_examples=300, deadline=None)
def test_normal_form_keeps_the_value(e: Expr, other: Expr, seed: int) -> None:
    normal = expand(e).to_expr()
    assert expand(normal) == expand(e)
    equal = prove_eq(e, other)
    for env in samples(dict.fromkeys(NAMES, Interval()), seed):
        value = value_of(e, env)
        if value is not None:
            assert value_of(normal, env) == value, (print_expr(e), print_expr(normal), env)
            if equal:
                assert value_of(other, env) in (value, None)


def test_wide_sums_stay_cheap() -> None:
    symbols = [Sym(f"s{i}") for i in range(60)]
    ranges = {symbol.name: Interval(1, None) for symbol in symbols}
    total = add(*(mul(x, y) for x, y in itertools.pairwise(symbols)))
    started = time.perf_counter()
    assert prove_le(total // 8 * 8, total, ranges)
    assert not prove_le(mul(*symbols), total, ranges)
    assert expand(mul(*(symbol + 1 for symbol in symbols))).terms
    assert time.perf_counter() - started < 5

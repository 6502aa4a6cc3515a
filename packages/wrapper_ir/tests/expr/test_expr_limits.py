"""Short texts of long numbers, deep nesting and wide products end quickly, with a coded error if not
computable.

What is counted are operations and nodes, not seconds: each case ends within them or would not end at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from packages.wrapper_ir.tests.expr.python_text import compile_python

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError, ParseError, WirError
from wrapper_ir.expr import (
    Expr,
    Int,
    Interval,
    Sym,
    SymKind,
    apply,
    bounds,
    evaluate,
    expand,
    mul,
    pow_,
    print_expr,
    prove_le,
    rebuild,
    substitute,
    to_cpp,
    to_python,
)
from wrapper_ir.expr import operators as ops
from wrapper_ir.expr.arithmetic import MAX_BITS
from wrapper_ir.expr.width import width

KINDS = dict.fromkeys(("a", "b"), SymKind.INT)
RANGES = {"a": Interval(0, 100), "b": Interval(1, None)}
a, b = Sym("a"), Sym("b")
MAX_CALLS = 10_000_000
"""The number of Python calls of one walk over an expression."""


def counted(run: Callable[[], object]) -> None:
    """Runs a function; fails if it makes more calls than a short text may cost."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"
        if calls > MAX_CALLS:
            sys.setprofile(None)
            raise AssertionError("does not end")

    sys.setprofile(count)
    try:
        run()
    except WirError:
        pass
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    "text", ["2**100000000000", "7**77777777", "9**9**9**9", "(-3)**99999999", "2**1000*2**a"]
)
def test_long_numbers_are_refused(text: str) -> None:
    e = ir.parse_expr(text, KINDS)
    assert print_expr(e) == text
    with pytest.raises(ExpressionError, match="WIR408"):
        evaluate(e, {"a": 5000})
    with pytest.raises(ExpressionError, match="WIR408"):
        compile_python(e, ("a",))(5000)
    assert rebuild(e, e.args).op is not None
    assert not prove_le(e, a, RANGES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2**62", 2**62),
        ("-2**63", None),
        ("2**63 - 1", 2**63 - 1),
        ("2**1000//2**990", 1024),
        ("(-1)**10000000001", -1),
    ],
)
def test_what_fits_is_computed(text: str, value: int | None) -> None:
    expected = -(2**63) if value is None else value
    assert evaluate(ir.parse_expr(text), {}) == expected
    assert compile_python(ir.parse_expr(text), ())() == expected


@pytest.mark.parametrize("text", ["2**63", "-2**63 - 1", "9223372036854775807 + a", "floor(1e300)"])
def test_results_are_int64(text: str) -> None:
    with pytest.raises(ExpressionError, match="WIR408"):
        evaluate(ir.parse_expr(text, KINDS), {"a": 1})


@pytest.mark.parametrize("text", ["to_int(inf)", "round(nan)", "ceil(1e300*1e300)"])
def test_conversions_of_no_number(text: str) -> None:
    with pytest.raises(ExpressionError, match="WIR402"):
        evaluate(ir.parse_expr(text), {})


def test_constants_have_a_limit() -> None:
    assert Int(1 << (MAX_BITS - 1)).value > 0
    with pytest.raises(ExpressionError, match="WIR408"):
        Int(1 << MAX_BITS)
    with pytest.raises(ParseError, match="WIR550"):
        ir.parse_expr("9" * 5000)
    with pytest.raises(ParseError, match="WIR550"):
        ir.parse_expr("9" * 2000)
    assert pow_(2, 5000).op is ops.POW
    with pytest.raises(ExpressionError, match="WIR408"):
        mul(1 << 3000, 1 << 3000)
    assert apply(ops.FLOOR, 1e300).op is ops.FLOOR


def test_long_bounds_are_none() -> None:
    assert bounds(ir.parse_expr("(a + 2)**(b + 1000000)", KINDS), RANGES).hi is None
    assert bounds(ir.parse_expr("2**100000000000"), {}).lo == 1 << 255


def test_python_computes_only_narrow_powers_itself() -> None:
    assert to_python(ir.parse_expr("a**2 + a**64", KINDS)) == "a ** 2 + a ** 64"
    assert to_python(ir.parse_expr("a**b", KINDS)) == "power(a, b)"
    assert to_python(ir.parse_expr("(a**64)**3", KINDS)) == "power(a ** 64, 3)"


@pytest.mark.parametrize(
    ("text", "bits"),
    [("a*b", 128), ("a*8", 68), ("a + b", 66), ("a**10", 640), ("a**b", 4096), ("where(a < b, a, 2)", 65)],
)
def test_widths(text: str, bits: int) -> None:
    assert width(ir.parse_expr(text, KINDS), {}) == bits
    assert width(ir.parse_expr("a*b", KINDS), {"a": 1000}) == 1064


NESTS = [
    ("(", ")**8"),
    ("(", ")**2"),
    ("((", ")**8)%7"),
    ("((", ")%b)**2"),
    ("((", ")*(b+1))**2"),
    ("(min((", ")%7,b)+1)*b"),
    ("(-((", ")**2)+b)"),
    ("where(a<b,(", ")*b,b)"),
    ("(1000*((", ")+b)+1)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), NESTS)
def test_nests_end(before: str, after: str) -> None:
    e = ir.parse_expr(before * 15 + "a" + after * 15, KINDS)
    walks: list[Callable[[Expr], object]] = [
        print_expr,
        to_python,
        to_cpp,
        expand,
        lambda e: evaluate(e, {"a": 9, "b": 4}),
        lambda e: bounds(e, RANGES),
        lambda e: prove_le(e, b, RANGES),
        lambda e: substitute(e, {"a": b + 1}),
    ]
    for walk in walks:
        counted(lambda walk=walk: walk(e))  # type: ignore[misc]  # a lambda's default has no type


@pytest.mark.parametrize(
    ("before", "after"), [*NESTS, ("-", ""), ("not ", ""), ("(a - ", ")"), ("(b*(a + ", "))**3")]
)
def test_deeper_nests_are_refused(before: str, after: str) -> None:
    with pytest.raises(ParseError, match="WIR553"):
        ir.parse_expr(before * 120 + "a" + after * 120, KINDS)

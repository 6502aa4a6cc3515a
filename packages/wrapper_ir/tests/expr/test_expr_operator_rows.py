"""A new operator needs only a row: text, Python, C++, evaluation, intervals, JSON and rewriting follow from
it."""

from __future__ import annotations

import math

import pytest
from packages.wrapper_ir.tests.expr.python_text import compile_python

from wrapper_ir import ir
from wrapper_ir.errors import ParseError
from wrapper_ir.expr import (
    OPERATORS,
    Expr,
    Interval,
    Operator,
    Spelling,
    Sym,
    SymKind,
    bounds,
    evaluate,
    expand,
    print_expr,
    substitute,
    to_cpp,
    to_python,
)
from wrapper_ir.json.exprs import ExprDecoder, encode_expr

KINDS = {"a": SymKind.INT, "b": SymKind.INT, "f": SymKind.FLOAT}
GCD = Operator(
    name="gcd",
    doc="The greatest common divisor. Text: `gcd(a, b)`.",
    result=lambda kinds: SymKind.INT,
    text=Spelling("gcd({*})"),
    python=Spelling("math.gcd({0:int}, {1:int})"),
    cpp=Spelling("std::gcd({0:int}, {1:int})"),
    evaluate=lambda a, b: math.gcd(int(a), int(b)),
    bounds=lambda a, b: Interval(0, None if a.hi is None or b.hi is None else max(a.hi, b.hi)),
    order="gcd(",
)
WITH_GCD = OPERATORS.with_rows(GCD)


def parse(text: str) -> Expr:
    return ir.parse_expr(text, KINDS, operators=WITH_GCD)


def test_text() -> None:
    e = parse("3*gcd(a + 1, b) - gcd(a, 2)")
    assert print_expr(e) == "3*gcd(a + 1, b) - gcd(a, 2)"
    assert parse(print_expr(e)) is e
    with pytest.raises(ParseError, match="WIR550"):
        parse("gcd(a)")
    with pytest.raises(ParseError, match="WIR550"):
        ir.parse_expr("gcd(a, b)", KINDS)


def test_python_and_evaluation() -> None:
    e = parse("gcd(a, b) + gcd(a, f)")
    assert to_python(e) == "math.gcd(a, b) + math.gcd(a, int(f))"
    assert evaluate(e, {"a": 12, "b": 18, "f": 8.0}) == 10
    assert compile_python(e, ("a", "b", "f"))(12, 18, 8.0) == 10


def test_cpp() -> None:
    assert to_cpp(parse("2*gcd(a, f)")) == "2L * std::gcd(a, wir_to_int(f))"


def test_intervals() -> None:
    ranges = {"a": Interval(0, 9), "b": Interval(0, 4)}
    assert bounds(parse("gcd(a, b) + 1"), ranges) == Interval(1, 10)
    assert bounds(parse("gcd(a, f)"), ranges) == Interval()


def test_json() -> None:
    e = parse("gcd(a, 4)")
    decoder = ExprDecoder(WITH_GCD)
    decoder.kinds = dict(KINDS)
    assert encode_expr(e) == ["gcd", "a", 4]
    assert decoder.expr(["gcd", "a", 4]) is e


def test_rewriting_and_normal_form() -> None:
    e = parse("gcd(a, b)")
    assert substitute(e, {"a": Sym("b")}) is GCD(Sym("b"), Sym("b"))
    assert expand(parse("gcd(a + a, b) - gcd(2*a, b)")).terms == {}

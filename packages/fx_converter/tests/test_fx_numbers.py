"""Expressions as calls of functions: the same numbers as the evaluator's, over a grid of signs and kinds."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fx_converter import targets
from fx_converter.graph.numbers import Calculator
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Number, Sym, SymKind, evaluate

KINDS = {"a": SymKind.INT, "b": SymKind.INT, "x": SymKind.FLOAT, "p": SymKind.BOOL}
GRID = [
    {"a": a, "b": b, "x": x, "p": p}
    for a, b, x, p in itertools.product((-7, -1, 0, 5), (-3, 1, 4), (0.25, 2.0), (False, True))
]
EXPRESSIONS = [
    "a + b*2 - 3",
    "a//b",
    "ceildiv(a, b)",
    "a % b",
    "a / b",
    "min(a, b, 2)",
    "max(a, b)",
    "b**3",
    "b**11",
    "x**2.5",
    "where(a > b, a, b)",
    "where(a == 0, 0, b//a)",
    "where(p, x, 1.5)",
    "a != 0 and b % a == 0",
    "a == 0 or ceildiv(b, a) > 0",
    "not a < b",
    "to_int(x*3.0) + floor(x) + ceil(x) + round(x)",
    "to_float(a) * x",
    "to_bool(a)",
    "abs(a) + bit_and(a, b) + bit_or(a, b) + bit_xor(a, b)",
    "sqrt(x) + exp(x) + log(x) + log2(x) + sin(x) + asinh(x)",
    "round_to(x, 1)",
    "where(a > 0, sqrt(to_float(a)), 0.0)",
]


def calls_of(e: Expr, env: dict[str, Number]) -> tuple[Number, list[str]]:
    """The value, and the names of the functions that were called."""
    made: list[str] = []

    def leaf(atom: Expr) -> Number:
        assert isinstance(atom, Sym)
        return env[atom.name]

    def call(function: Any, *args: Any) -> Any:  # Any: functions of numbers
        made.append(args[0] if function is targets.total_call else function.__name__)
        return function(*args)

    return Calculator(leaf, call)(e), made


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_values(text: str) -> None:
    e = ir.parse_expr(text, KINDS)
    for env in GRID:
        got, _ = calls_of(e, env)
        want = evaluate(e, env)
        assert got == pytest.approx(want), env
        assert isinstance(got, bool) == isinstance(want, bool)


def test_a_ceiling_is_two_negations_around_a_floor_division() -> None:
    assert calls_of(ir.parse_expr("ceildiv(a, b)", KINDS), {"a": 7, "b": 2}) == (
        4,
        ["neg", "floordiv", "neg"],
    )


def test_whole_powers_are_matmuls() -> None:
    assert calls_of(ir.parse_expr("a**3", KINDS), {"a": 2}) == (8, ["mul", "mul"])


def test_equal_parts_are_computed_once() -> None:
    _, made = calls_of(ir.parse_expr("a//b + (a//b)*2", KINDS), {"a": 7, "b": 2})
    assert made.count("floordiv") == 1

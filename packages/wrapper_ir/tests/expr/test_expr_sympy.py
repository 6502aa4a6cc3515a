"""The bridge to sympy: conversions in both directions, solving, floors, and torch's classes."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from typing import Any

import pytest
import sympy
import torch.utils._sympy.functions as torch_functions
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._sympy.numbers import int_oo

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Int, Sym, SymKind, evaluate, print_expr
from wrapper_ir.expr import operators as ops
from wrapper_ir.expr.sympy_bridge import from_sympy, replace_floor, simplify, solve, to_sympy
from wrapper_ir.expr.sympy_bridge.reader import CLASSES

KINDS = {
    **dict.fromkeys(("a", "b", "c", "s0", "s1", "u0"), SymKind.INT),
    **dict.fromkeys(("f", "g"), SymKind.FLOAT),
    "p": SymKind.BOOL,
}
s0, s1, n = sympy.symbols("s0 s1 n", integer=True, positive=True)
f = sympy.Symbol("f", real=True)
T: Any = torch_functions  # partly annotated


def parse(text: str) -> Expr:
    return ir.parse_expr(text, KINDS)


def test_import_does_not_load_sympy_or_torch() -> None:
    code = "import sys, wrapper_ir.expr, wrapper_ir.expr.sympy_bridge; print('sympy' in sys.modules, 'torch' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (s0 * 4 + 1, "4*s0 + 1"),
        (s0 - s1, "s0 - s1"),
        (s0**2, "s0*s0"),
        (s0**7, "s0**7"),
        (2**s0, "2**s0"),
        (sympy.sqrt(s0), "s0**0.5"),
        (s0 / 2, "s0//2"),
        ((s0 + 1) * s0 / 2, "s0*(s0 + 1)//2"),
        (s0 / 2 + s1 / 3, "(3*s0 + 2*s1)//6"),
        (s0 / s1, "s0//s1"),
        (f / 2, "f / 2"),
        (f * s0, "f*s0"),
        (sympy.Rational(1, 2), "0.5"),
        (sympy.floor(s0 / 2), "s0//2"),
        (sympy.ceiling(s0 / 2 + s1 / 2), "ceildiv(s0 + s1, 2)"),
        (sympy.floor(f), "floor(f)"),
        (sympy.floor(f / 2), "floor(f / 2)"),
        (sympy.Mod(s0, s1), "s0 % s1"),
        (sympy.Min(s0, s1, 4), "min(s0, s1, 4)"),
        (sympy.Abs(f), "abs(f)"),
        (sympy.sin(f) + sympy.log(f), "log(f) + sin(f)"),
        (sympy.Piecewise((s0, s0 < 5), (s1, True)), "where(s0 < 5, s0, s1)"),
        (sympy.Eq(s0, 5), "s0 == 5"),
        (sympy.Ne(s0, s1), "s0 != s1"),
        (sympy.And(s0 < 5, s1 >= 2), "s1 >= 2 and s0 < 5"),
        (sympy.Not(sympy.And(s0 < 5, s1 >= 2)), "not (s1 >= 2 and s0 < 5)"),
        (sympy.Gt(s0 / 2, sympy.Rational(3, 2), evaluate=False), "2*s0 > 6"),
        (sympy.true, "true"),
        (sympy.oo, "inf"),
        (sympy.pi, "3.141592653589793"),
        (7, "7"),
        (True, "true"),
        (T.FloorDiv(s0, 4), "s0//4"),
        (T.CleanDiv(s0, s1), "s0//s1"),
        (T.CeilDiv(s0, 4), "(s0 + 3)//4"),
        (T.ModularIndexing(s0, 4, s1), "s0//4 % s1"),
        (T.Mod(s0, 8), "s0 % 8"),
        (T.PythonMod(s0, -8), "s0 % -8"),
        (T.Where(s0 < 5, s0, s1), "where(s0 < 5, s0, s1)"),
        (T.Max(s0, s1 + 7), "max(s0, s1 + 7)"),
        (T.Min(s0, 9), "min(s0, 9)"),
        (T.TruncToInt(f), "to_int(f)"),
        (T.TruncToFloat(f), "to_float(to_int(f))"),
        (T.FloorToInt(f), "floor(f)"),
        (T.CeilToInt(f), "ceil(f)"),
        (T.RoundToInt(f), "round(f)"),
        (T.RoundDecimal(f, sympy.Integer(2)), "round_to(f, 2)"),
        (T.ToFloat(s0), "to_float(s0)"),
        (T.IntTrueDiv(s0, s1), "s0 / s1"),
        (T.FloatTrueDiv(f, T.ToFloat(s0)), "f / to_float(s0)"),
        (T.PowByNatural(s0, s1), "s0**s1"),
        (T.FloatPow(f, sympy.Float(0.5)), "f**0.5"),
        (T.Identity(s0 + 1), "s0 + 1"),
        (T.LShift(s0, sympy.Integer(3)), "8*s0"),
        (T.RShift(s0, sympy.Integer(3)), "s0//8"),
        (T.LShift(s0, s1), "s0*2**s1"),
        (T.BitwiseFn_bitwise_and(s0, s1), "bit_and(s0, s1)"),
        (T.BitwiseFn_bitwise_or(s0, s1), "bit_or(s0, s1)"),
        (T.BitwiseFn_bitwise_xor(s0, s1), "bit_xor(s0, s1)"),
        (T.OpaqueUnaryFn_sqrt(T.ToFloat(s0)), "sqrt(to_float(s0))"),
        (T.OpaqueUnaryFn_log2(f), "log2(f)"),
    ],
)
def test_from_sympy(expr: Any, text: str) -> None:
    converted = from_sympy(expr)
    assert print_expr(converted) == text
    assert converted is parse(text)


@pytest.mark.parametrize(
    ("expr", "name"),
    [
        (T.IsNonOverlappingAndDenseIndicator(s0, s1, s1, s0), "IsNonOverlappingAndDenseIndicator"),
        (int_oo, "IntInfinity"),
        (sympy.zoo, "ComplexInfinity"),
        (sympy.gamma(s0) + 1, "gamma"),
        (sympy.Piecewise((s0, s0 < 5)), "Piecewise"),
        ("text", "str"),
    ],
)
def test_classes_without_counterpart_are_named(expr: Any, name: str) -> None:
    with pytest.raises(ExpressionError, match=rf"WIR406.* {name} ") as caught:
        from_sympy(expr)
    assert caught.value.code == "WIR406"


def test_every_function_of_torch_is_known() -> None:
    """Checks that every function of torch has a handler, or is listed here as refused."""
    refused = {
        "IsNonOverlappingAndDenseIndicator",
        "MinMaxBase",
        "Function",
        "Application",
        "LatticeOp",
        "Expr",
    }
    names = {
        cls.__name__ for _, cls in inspect.getmembers(T, inspect.isclass) if issubclass(cls, sympy.Basic)
    }
    assert names - refused <= set(CLASSES)
    assert {"FloorDiv", "BitwiseFn_bitwise_and", "OpaqueUnaryFn_asinh"} <= names


def test_kinds_of_symbols() -> None:
    plain = sympy.Symbol("b")
    assert from_sympy(plain) is Sym("b", SymKind.FLOAT)
    assert from_sympy(plain, kind_of=lambda symbol: SymKind.BOOL) is Sym("b", SymKind.BOOL)


def test_captured_comparisons_do_not_fold() -> None:
    captured = sympy.Lt(s0, s0 + 1, evaluate=False)
    assert print_expr(from_sympy(captured)) == "s0 < s0 + 1"


TEXTS = [
    "a + 2*b - 3",
    "a*b*c",
    "a//3 + ceildiv(b, 4)",
    "a % 5 - b % -5",
    "min(a, b, 3) + max(a, c)",
    "where(a < b, a, c)",
    "a**3",
    "abs(a)",
    "p + p + a",
    "(a < b) + 0",
    "floor(a / 3)",
    "to_int(f) + round(f) + ceil(f)",
    "to_float(a) / 3.0",
    "bit_and(a, b) + bit_xor(a, 3)",
    "round_to(f, 1)",
    "sqrt(abs(f))",
    "2.5*f + g",
    "a < b and not p or b == c",
    "to_bool(a) and p",
    "where(p, a < b, b < c)",
    "inf",
]


@pytest.mark.parametrize("text", TEXTS)
def test_there_and_back_keeps_the_value(text: str) -> None:
    e = parse(text)
    leaves: dict[str, Expr] = {}
    back = from_sympy(to_sympy(e, leaves), kind_of=lambda symbol: KINDS[symbol.name], leaves=leaves)
    assert back.kind is e.kind
    for a in (-7, -1, 0, 2, 12):
        env = {"a": a, "b": 5 - a, "c": a * a, "f": a / 4, "g": 1.5 * a, "p": a > 0}
        assert math.isclose(evaluate(back, env), evaluate(e, env), rel_tol=1e-14)


def test_atoms_go_there_and_back() -> None:
    x = ir.Value("x", ir.TensorType(ir.DType.F32, (Int(4),), (Int(1),)))
    leaves: dict[str, Expr] = {}
    e = ir.SizeOf(x, 0) * 2 + 1
    converted = to_sympy(e, leaves)
    assert str(converted) == "2*size(%x, 0) + 1"
    assert from_sympy(converted, leaves=leaves) is e


LEAVES = st.one_of(st.integers(-6, 6).map(Int), st.sampled_from([Sym("a"), Sym("b"), Sym("c")]))


def compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(inner, inner)
    nonzero = st.integers(-6, 6).filter(bool).map(Int)
    return st.one_of(
        pairs.map(lambda args: ops.ADD(*args)),
        pairs.map(lambda args: ops.MUL(*args)),
        pairs.map(lambda args: ops.MIN(*args)),
        pairs.map(lambda args: ops.MAX(*args)),
        st.builds(ops.FLOORDIV, inner, nonzero),
        st.builds(ops.CEILDIV, inner, nonzero),
        st.builds(ops.MOD, inner, nonzero),
    )


EXPRS = st.recursive(LEAVES, compound, max_leaves=6)
ENVS = st.fixed_dictionaries({name: st.integers(-12, 12) for name in ("a", "b", "c")})


@given(EXPRS, ENVS)
@settings(max_examples=150, deadline=None)
def test_sympy_agrees_with_evaluation(e: Expr, env: dict[str, int]) -> None:
    expected = evaluate(e, env)
    converted = to_sympy(e)
    assert (
        int(converted.subs({sympy.Symbol(name, integer=True): value for name, value in env.items()}))
        == expected
    )
    back = from_sympy(converted)
    assert back.kind is SymKind.INT
    assert evaluate(back, env) == expected, (print_expr(e), converted, print_expr(back))


@given(EXPRS, ENVS)
@settings(max_examples=60, deadline=None)
def test_floors_can_be_expanded_back(e: Expr, env: dict[str, int]) -> None:
    original = to_sympy(e)
    converted = replace_floor(original)
    assert not converted.has(sympy.floor, sympy.ceiling)
    quotient = sympy.Function("FloorDiv", integer=True)
    expanded = converted.replace(quotient, lambda a, b: sympy.floor(a / b))
    point = {sympy.Symbol(name, integer=True): value for name, value in env.items()}
    assert expanded.subs(point) == original.subs(point)
    assert evaluate(from_sympy(converted), env) == evaluate(e, env)


x, y = sympy.symbols("x y", real=True)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (sympy.floor(s0 / 2), "FloorDiv(s0, 2)"),
        (sympy.floor(s0 / 2 + s1 / 3), "FloorDiv(3*s0 + 2*s1, 6)"),
        (sympy.floor(sympy.Rational(3, 4) * s0 * s1), "FloorDiv(3*s0*s1, 4)"),
        (sympy.floor(s0 / s1), "FloorDiv(s0, s1)"),
        (sympy.floor(s0 / (s1 + n)), "FloorDiv(s0, n + s1)"),
        (sympy.floor(s0 * 2 ** (-s1)), "FloorDiv(s0, 2**s1)"),
        (sympy.floor(s0 / s1**2), "FloorDiv(s0, s1**2)"),
        (sympy.floor(x), "FloorDiv(x, 1)"),
        (sympy.floor(x + y), "FloorDiv(x + y, 1)"),
        (sympy.floor(sympy.floor(s0 / 2) / s1), "FloorDiv(FloorDiv(s0, 2), s1)"),
        (sympy.floor(-s0 / 2), "FloorDiv(-s0, 2)"),
        (sympy.ceiling(s0 / 2), "-FloorDiv(-s0, 2)"),
        (sympy.floor(sympy.ceiling(s0 / 2) / 3) + 1, "FloorDiv(-FloorDiv(-s0, 2), 3) + 1"),
        (sympy.floor(1 / s0 + s1 / 2), "FloorDiv(s0*s1 + 2, 2*s0)"),
        (s0 + 1, "s0 + 1"),
    ],
)
def test_replace_floor(expr: Any, expected: str) -> None:
    converted = replace_floor(expr)
    assert str(converted) == expected
    back = converted.replace(sympy.Function("FloorDiv", integer=True), lambda a, b: sympy.floor(a / b))
    assert sympy.simplify(back - expr.replace(sympy.ceiling, lambda a: -sympy.floor(-a))) == 0


def test_replace_floor_makes_torch_quotients() -> None:
    converted = replace_floor(sympy.floor(s0 / 3), T.FloorDiv)
    assert converted == T.FloorDiv(s0, 3)


@pytest.mark.parametrize(
    ("lhs", "rhs", "solution"),
    [
        ("a + 3", "b", "b - 3"),
        ("4*a", "b", "b//4"),
        ("4*a + 2", "b", "(b - 2)//4"),
        ("b", "c*a", "b//c"),
        ("a*c + a", "b", "b//(c + 1)"),
        ("3 - a", "b", "-b + 3"),
        ("8", "2*a", "4"),
        ("9", "2*a", "4"),
        ("a*(b + 1) - a*b", "c", "c"),
        ("2*a*(b + c)", "u0", "u0//(2*b + 2*c)"),
        ("-2*a", "b", "-b//2"),
        ("a + b//2", "c", "c - b//2"),
    ],
)
def test_solve(lhs: str, rhs: str, solution: str) -> None:
    assert print_expr(solve(parse(lhs), parse(rhs), "a")) == solution


def test_solve_a_square() -> None:
    solution = solve(parse("a*a"), parse("9*c"), "a")
    assert evaluate(solution, {"c": 4}) == 6
    assert solution.kind is SymKind.INT


@pytest.mark.parametrize(
    ("lhs", "rhs", "unknown", "message"),
    [
        ("a + b", "c", ("a", "b"), "a and b"),
        ("b", "c", "a", "nothing"),
        ("a - a", "c", "a", "0 solutions"),
        ("a//2", "c", "a", "no single solution"),
        ("a*a - 3*a + 2", "0", "a", "2 solutions"),
        ("a % 4", "c", "a", "no single solution"),
    ],
)
def test_unsolvable_equations_are_refused(lhs: str, rhs: str, unknown: Any, message: str) -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        solve(parse(lhs), parse(rhs), unknown)
    assert caught.value.code == "WIR407"


def test_solve_with_one_of_several_candidates() -> None:
    assert print_expr(solve(parse("2*a"), parse("c"), ("a", "b"))) == "c//2"


@pytest.mark.parametrize(
    ("text", "simpler"),
    [
        ("(a + b)*(a - b) - a*a + b*b", "0"),
        ("(a*b + a*c)//(b + c)", "a"),
        ("min(a, a + 1)", "a"),
        ("min(a, a + 1) / 2", "a / 2"),
        ("a + 0.0", "a + 0.0"),
        ("2.0*f - f - f", "2.0*f - f - f"),
        ("where(p, (a*b + a*c)//(b + c), 1)", "where(p, a, 1)"),
        ("a*b + floor((a*b + a*c)//(b + c) / 2)", "a*b + floor(a / 2)"),
        ("5", "5"),
    ],
)
def test_simplify(text: str, simpler: str) -> None:
    assert print_expr(simplify(parse(text))) == simpler


@given(EXPRS, ENVS)
@settings(max_examples=40, deadline=None)
def test_simplify_keeps_the_value(e: Expr, env: dict[str, int]) -> None:
    assert evaluate(simplify(e), env) == evaluate(e, env)

"""Expression text: printing, parsing and refusals."""

from __future__ import annotations

import pytest

from wrapper_ir import ir
from wrapper_ir.errors import ParseError
from wrapper_ir.expr import Expr, Float, Int, Sym, SymKind, print_expr
from wrapper_ir.expr import operators as ops

KINDS = {"a": SymKind.INT, "b": SymKind.INT, "c": SymKind.INT, "f": SymKind.FLOAT, "p": SymKind.BOOL}
X = ir.Value("x", ir.TensorType(ir.DType.F32, (Int(4),), (Int(1),)))
VALUES = {"x": X, "buf0": ir.Value("buf0", ir.TensorType(ir.DType.BOOL, (), ()))}
a, b, c = Sym("a"), Sym("b"), Sym("c")

CANONICAL = [
    "0",
    "-5",
    "a",
    "2.0",
    "-2.5",
    "1e+22",
    "1e-05",
    "inf",
    "-inf",
    "nan",
    "-0.0",
    "true",
    "false",
    "a + b + c",
    "(a + b) + c",
    "a + (b + c)",
    "a - b",
    "a - 5",
    "-5 + a",
    "-a + b",
    "a - 3*b",
    "a - b*c",
    "a - (b*c)",
    "a - 1*5",
    "a - b//c",
    "a - 2.5",
    "a - 1*2.5*f",
    "a - (-b)",
    "a - (b + c)",
    "-1*5",
    "-a*b",
    "-(a*b)",
    "(-a)*b",
    "a*(-b)",
    "a*-5",
    "a*b*c",
    "(a*b)*c",
    "a//b//c",
    "a//(b//c)",
    "a*b//c",
    "a*(b//c)",
    "a//b*c",
    "-a//b",
    "-(a//b)",
    "-5//a",
    "a//-5",
    "a % b",
    "a*(b % c)",
    "a / b",
    "a**2",
    "a**-2",
    "a**(-b)",
    "-a**2",
    "(-a)**2",
    "(-2)**a",
    "-2**a",
    "a**b**c",
    "(a**b)**c",
    "ceildiv(a + 1, b)",
    "min(a, b, 3)",
    "max(a, -b)",
    "where(a < b, a, b)",
    "a == b",
    "a != b and a <= b or not a > b",
    "(a or b) and c",
    "(a and b) and c",
    "not not p",
    "not (a and b)",
    "(a < b) == (b < c)",
    "to_int(f)",
    "to_float(a)",
    "to_bool(a)",
    "floor(f)",
    "round(f)",
    "sqrt(f)",
    "round_to(f, 2)",
    "bit_and(a, 7)",
    "size(%x, 0)*4",
    "stride(%x, 0) + offset(%x)",
    "item(%buf0)",
    "a % size(%x, 0)",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text_survives(text: str) -> None:
    e = ir.parse_expr(text, KINDS, VALUES)
    assert print_expr(e) == text
    assert ir.parse_expr(print_expr(e), KINDS, VALUES) is e


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (ops.ADD(a, Int(-5)), "a - 5"),
        (ops.ADD(a, ops.MUL(Int(-1), Int(5))), "a - 1*5"),
        (ops.ADD(a, ops.MUL(Int(-1), ops.MUL(b, c))), "a - (b*c)"),
        (ops.ADD(a, ops.MUL(Int(-1), Int(-5))), "a - 1*-5"),
        (ops.ADD(a, ops.MUL(Int(-3), ops.MUL(b, c))), "a - 3*(b*c)"),
        (ops.ADD(a, ops.MUL(Int(-1), ops.FLOORDIV(ops.MUL(Int(3), b), c))), "a - 3*b//c"),
        (ops.ADD(a, ops.FLOORDIV(ops.MUL(Int(-3), b), c)), "a + -3*b//c"),
        (ops.ADD(a, Int(0)), "a + 0"),
        (ops.ADD(a, Float(-0.0)), "a - 0.0"),
        (ops.MUL(Int(-1), Float(-0.0)), "-1*-0.0"),
        (ops.MUL(Int(1), ops.MUL(Int(-1), a)), "1*(-a)"),
        (ops.POW(Int(-2), Int(-3)), "(-2)**-3"),
        (ops.CEILDIV(ir.SizeOf(X, 0), ir.StrideOf(X, 0)), "ceildiv(size(%x, 0), stride(%x, 0))"),
    ],
)
def test_structure_is_kept(e: Expr, text: str) -> None:
    assert print_expr(e) == text
    assert ir.parse_expr(text, KINDS, VALUES) is e


@pytest.mark.parametrize(
    ("text", "same"),
    [("a*b+c", "a*b + c"), ("((a))", "a"), ("a%b", "a % b"), ("a %b", "a % b"), ("2.", "2.0"), ("- 5", "-5")],
)
def test_other_spellings(text: str, same: str) -> None:
    assert print_expr(ir.parse_expr(text, KINDS, VALUES)) == same


def test_numbers_keep_their_kind() -> None:
    assert ir.parse_expr("2") is Int(2)
    assert ir.parse_expr("2.0") is Float(2.0)
    assert Int(2) != Float(2.0)


def test_atoms_hold_the_value() -> None:
    assert ir.parse_expr("item(%x)", {}, VALUES) is ir.Item(X)
    assert ir.parse_expr("item(%x)", {}, VALUES).kind is SymKind.FLOAT
    assert ir.parse_expr("item(%buf0)", {}, VALUES).kind is SymKind.BOOL


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("", "WIR550", 1),
        ("a +", "WIR550", 4),
        ("a b", "WIR550", 3),
        ("a < b < c", "WIR550", 7),
        ("a + not b", "WIR550", 5),
        ("(a", "WIR550", 3),
        ("a)", "WIR550", 2),
        ("min(a)", "WIR550", 1),
        ("where(a, b)", "WIR550", 1),
        ("sqrt(f, f)", "WIR550", 1),
        ("foo(a)", "WIR550", 1),
        ("size(%x)", "WIR550", 8),
        ("size(%x, -1)", "WIR550", 10),
        ("size(a, 0)", "WIR550", 6),
        ("a $ b", "WIR550", 3),
        ("a.b", "WIR550", 2),
        ("%x", "WIR550", 1),
        ("a + z", "WIR551", 5),
        ("min", "WIR551", 1),
        ("item(%y)", "WIR552", 6),
        ("(" * 5000 + "a" + ")" * 5000, "WIR553", None),
        ("-" * 5000 + "a", "WIR553", None),
        ("not " * 5000 + "a", "WIR553", None),
        ("a**" * 5000 + "a", "WIR553", None),
        ("a" + "//a" * 5000, "WIR553", None),
        ("a" + "//a*a" * 5000, "WIR553", None),
        ("min(a, " * 5000 + "a" + ")" * 5000, "WIR553", None),
    ],
)
def test_refused_text(text: str, code: str, column: int | None) -> None:
    with pytest.raises(ParseError) as caught:
        ir.parse_expr(text, KINDS, VALUES)
    assert caught.value.code == code
    assert column is None or caught.value.column == column


def test_long_sums_parse_in_linear_time() -> None:
    text = " + ".join(f"{i}*a" for i in range(2, 3000))
    e = ir.parse_expr(text, KINDS)
    assert e.op is ops.ADD
    assert len(e.args) == 2998
    assert print_expr(e) == text

"""Nodes, their kinds, and the results of smart constructors."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import typing
import weakref

import pytest

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import (
    ATOM_WORDS,
    OPERATORS,
    Bool,
    Expr,
    Float,
    Int,
    Operator,
    Sym,
    SymKind,
    add,
    and_,
    apply,
    as_expr,
    eq,
    lt,
    map_atoms,
    min_,
    mul,
    not_,
    or_,
    print_expr,
    rebuild,
    sub,
    substitute,
    where,
)
from wrapper_ir.expr import operators as ops

KINDS = {**dict.fromkeys(("a", "b", "c"), SymKind.INT), "f": SymKind.FLOAT, "p": SymKind.BOOL}
a, b, f, p = Sym("a"), Sym("b"), Sym("f", SymKind.FLOAT), Sym("p", SymKind.BOOL)
X = ir.Value("x", ir.TensorType(ir.DType.F32, (Int(4),), (Int(1),)))


def test_node_types_are_the_union() -> None:
    assert typing.get_args(ir.Node) == ir.NODE_TYPES


def test_operators_have_names_of_their_own() -> None:
    names = [op.name for op in OPERATORS.rows]
    assert len(names) == len(set(names))
    orders = [op.order for op in OPERATORS.rows]
    assert len(orders) == len(set(orders))
    assert set(OPERATORS.calls) | {op.name for op in OPERATORS.infix.values()} | {"not"} == set(names)


@pytest.mark.parametrize("op", OPERATORS.rows, ids=str)
def test_the_form_of_an_operator(op: Operator) -> None:
    text = op.doc.partition("Text: `")[2].removesuffix("`.")
    symbols = dict.fromkeys(("a", "b", "c"), SymKind.INT)
    parsed = ir.parse_expr(text, symbols)
    assert parsed.op is op
    assert print_expr(parsed) == text
    assert pickle.loads(pickle.dumps(parsed)) is parsed


def test_equal_nodes_are_one_object() -> None:
    assert ops.ADD(a, Int(1)) is ops.ADD(Sym("a"), Int(1))
    assert Float(float("nan")) is Float(-float("nan"))
    assert Float(0.0) is not Float(-0.0)
    assert Int(1) != Float(1.0) != Bool(True) != Int(1)
    assert Sym("a") != Sym("a", SymKind.FLOAT)
    assert hash(Int(10**30)) == hash(Int(10**30))


def test_nodes_are_freed() -> None:
    node = weakref.ref(ops.ADD(Sym("only_here"), Int(123456789)))
    gc.collect()
    assert node() is None


def test_nodes_cannot_change() -> None:
    node: typing.Any = Int(1)  # to try what the types forbid
    with pytest.raises(AttributeError):
        node.value = 2
    with pytest.raises(AttributeError):
        del node.value
    with pytest.raises(AttributeError):
        node.other = 2
    assert pickle.loads(pickle.dumps(ir.SizeOf(X, 0))) is ir.SizeOf(X, 0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a + 1", SymKind.INT),
        ("a + f", SymKind.FLOAT),
        ("p + p", SymKind.INT),
        ("a / b", SymKind.FLOAT),
        ("a**2", SymKind.INT),
        ("a < b", SymKind.BOOL),
        ("where(p, a, f)", SymKind.FLOAT),
        ("where(p, p, true)", SymKind.BOOL),
        ("min(a, p)", SymKind.INT),
        ("floor(f)", SymKind.INT),
        ("to_bool(a)", SymKind.BOOL),
        ("abs(f)", SymKind.FLOAT),
        ("abs(a)", SymKind.INT),
        ("bit_or(a, 1)", SymKind.INT),
        ("sqrt(a)", SymKind.FLOAT),
    ],
)
def test_kinds(text: str, kind: SymKind) -> None:
    assert ir.parse_expr(text, KINDS).kind is kind


def test_kinds_of_items() -> None:
    types = {SymKind.FLOAT: ir.DType.BF16, SymKind.INT: ir.DType.U8, SymKind.BOOL: ir.DType.BOOL}
    for kind, dtype in types.items():
        assert ir.Item(ir.Value("x", ir.TensorType(dtype, (), ()))).kind is kind
        assert ir.Item(ir.Value("y", ir.ScalarType(kind))).kind is kind


def test_free_symbols_and_values() -> None:
    e = where(lt(a, b), ir.SizeOf(X, 0) + a, ir.Item(X))
    assert e.free_symbols == {"a", "b"}
    assert e.free_atoms == {ir.SizeOf(X, 0), ir.Item(X)}
    assert ir.free_values(e) == {X}
    assert {*ir.DIM_ATOMS, *ir.VALUE_ATOMS} == {*ATOM_WORDS}


@pytest.mark.parametrize("name", ["", "1a", "a b", "min", "true", "inf", "and", "lambda", "a.b", "%x"])
def test_bad_symbol_names(name: str) -> None:
    with pytest.raises(ExpressionError, match="WIR401"):
        Sym(name)


def test_malformed_nodes() -> None:
    with pytest.raises(ExpressionError, match="WIR401"):
        ops.ADD(a)
    with pytest.raises(ExpressionError, match="WIR401"):
        ops.SQRT(a, b)
    with pytest.raises(ExpressionError, match="WIR401"):
        as_expr(typing.cast(int, "a"))  # to try what the types forbid
    with pytest.raises(ExpressionError, match="WIR401"):
        min_()


SIMPLIFIED = [
    (a + 0, "a"),
    (a * 1, "a"),
    (a * 0, "0"),
    (a - a, "0"),
    (a + a, "2*a"),
    (b + a + 1 + a, "2*a + b + 1"),
    (3 - a, "-a + 3"),
    (-a, "-a"),
    (2 * (a + 3), "2*a + 6"),
    (b * a * 4, "4*a*b"),
    ((a + 1) * (b + 1), "(a + 1)*(b + 1)"),
    (a * b + a + 1, "a*b + a + 1"),
    (a // 1, "a"),
    (a // -1, "-a"),
    (a * 8 // 8, "a"),
    ((a * 8 + 3) // 8, "a"),
    ((a * 6 + 3) // 4, "(3*a + 1)//2"),
    (a // 2 // 3, "a//6"),
    (a * b // b, "a*b//b"),
    (a // 0, "a//0"),
    (7 // as_expr(-2), "-4"),
    (7 % as_expr(-2), "-1"),
    ((a * 8 + b) % 8, "b % 8"),
    (a % 16 % 4, "a % 4"),
    (a % 1, "0"),
    (a * f, "a*f"),
    (f * 1, "f"),
    (f + 0, "f + 0"),
    (as_expr(1.5) + 2, "3.5"),
    (min_(a, 3, b, 5, a), "min(a, b, 3)"),
    (min_(a), "a"),
    (where(True, a, b), "a"),
    (where(p, a, a), "a"),
    (where(True, a, f), "where(true, a, f)"),
    (eq(a + 1, a + 1), "true"),
    (eq(f, f), "f == f"),
    (lt(a, a + 1), "true"),
    (and_(), "true"),
    (and_(p, True, p), "p"),
    (and_(lt(a, b), False, p), "a < b and false"),
    (or_(p, or_(lt(a, b), False)), "p or a < b"),
    (or_(True, p), "true"),
    (not_(lt(a, b)), "a >= b"),
    (not_(lt(f, 1.0)), "not f < 1.0"),
    (not_(not_(p)), "p"),
    (apply(ops.BIT_XOR, 6, 3), "5"),
    (apply(ops.ABS, -6), "6"),
]


@pytest.mark.parametrize(("e", "text"), SIMPLIFIED, ids=[text for _, text in SIMPLIFIED])
def test_smart_constructors(e: Expr, text: str) -> None:
    assert print_expr(e) == text


def test_plain_constructors_do_not_simplify() -> None:
    assert print_expr(ops.ADD(a, Int(0))) == "a + 0"
    assert print_expr(ops.LT(a, a)) == "a < a"
    assert print_expr(ops.FLOORDIV(ops.MUL(a, Int(1)), Int(1))) == "a*1//1"


def test_order_is_natural() -> None:
    symbols = [Sym(f"s{i}") for i in (10, 2, 33, 1)]
    assert print_expr(add(*symbols)) == "s1 + s2 + s10 + s33"


def test_order_does_not_depend_on_the_process() -> None:
    code = """
from wrapper_ir.expr import ATOM_WORDS, Bool, Expr, Float, Int, OPERATORS, Operator, Sym, SymKind, add, and_, apply, as_expr, ceildiv, eq, lt, map_atoms, max_, min_, mul, not_, or_, print_expr, rebuild, sub, substitute, to_bool, to_int, where
a, b = Sym("a"), Sym("b")
parts = [a//b, b//a, min_(a, b), max_(a, b), a % b, where(lt(a, b), a, 1), a, b, a*b, ceildiv(a, b)]
print(add(*parts), mul(*parts), min_(*parts))
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def test_substitute() -> None:
    e = ir.parse_expr("(a + 1)//2 + b", KINDS)
    assert print_expr(substitute(e, {"a": Int(5)})) == "b + 3"
    assert print_expr(substitute(e, {"a": Int(5)}, simplify=False)) == "(5 + 1)//2 + b"
    assert print_expr(substitute(e, {"a": b, "b": a})) == "a + (b + 1)//2"
    assert print_expr(substitute(e, {ir.parse_expr("a + 1", KINDS): b * 2})) == "2*b"
    assert substitute(e, {"z": a}) is e
    assert substitute(e, {}) is e


def test_map_atoms() -> None:
    e = where(lt(ir.SizeOf(X, 0), 4), ir.SizeOf(X, 0) * 2, a)
    assert print_expr(map_atoms(e, lambda atom: Sym("n"))) == "where(n < 4, 2*n, a)"
    assert print_expr(map_atoms(e, lambda atom: Int(2))) == "4"
    assert map_atoms(a, lambda atom: Int(2)) is a


def test_rebuild_plain_keeps_everything() -> None:
    for text in (
        "a + 0",
        "a*1",
        "a//1",
        "min(a, a)",
        "where(true, a, b)",
        "not not p",
        "to_int(a)",
        "a < a",
        "abs(-1)",
    ):
        e = ir.parse_expr(text, KINDS)
        assert rebuild(e, e.args, simplify=False) is e


def test_bools_count_as_numbers() -> None:
    assert add(p, 0).kind is SymKind.INT
    assert mul(p).kind is SymKind.INT
    assert sub(p, p) is Int(0)
    assert where(p, a, b).op is ops.WHERE


def test_nodes_tell_their_integer_or_symbol() -> None:
    nodes = (Int(3), Int(10**30), Float(3.0), Bool(True), Sym("s0"), add(Sym("s0"), 1))
    assert [node.integer for node in nodes] == [3, 10**30, None, None, None, None]
    assert [node.symbol for node in nodes] == [None, None, None, None, "s0", None]

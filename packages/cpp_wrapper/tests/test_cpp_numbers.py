"""Expressions are computed in 128 bits only if 64 bits can lose a value."""

from __future__ import annotations

import pytest

from cpp_wrapper.sources.numbers import number_text, ranges_of
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Sym, SymKind

KINDS = {
    "a": SymKind.INT,
    "b": SymKind.INT,
    "n": SymKind.INT,
    "m": SymKind.INT,
    "f": SymKind.FLOAT,
    "p": SymKind.BOOL,
}
RANGES = ranges_of([ir.SymbolDef(name="n", lower=1), ir.SymbolDef(name="m", lower=0, upper=2**20)])


def leaf(e: Expr) -> str:
    assert isinstance(e, Sym)
    return e.name


@pytest.mark.parametrize(
    ("text", "cpp"),
    [
        ("a*b", "a * b"),
        ("a - 1", "a - 1L"),
        ("n*n*4", "n * n * 4L"),
        ("n*n + m", "n * n + m"),
        ("a//b", "Int(wir_floordiv(a, b))"),
        ("m*16//b", "Int(wir_floordiv(m * 16L, b))"),
        ("m*16 - 5*m", "m * 16L - 5L * m"),
        ("a < b", "a < b"),
        ("m*m < b", "m * m < b"),
        ("where(p, a, 3)", "Int(p ? a : 3L)"),
        ("p + a", "Int(wir_whole(p) + a)"),
        ("a*b//b", "Int(wir_floordiv(Wide(a) * Wide(b), Wide(b)))"),
        ("a + b - 1", "Int(Wide(a) + Wide(b) - 1L)"),
        ("a*b*m", "Int(Wide(a) * Wide(b) * Wide(m))"),
        ("n*n - 1", "Int(Wide(n) * Wide(n) - 1L)"),
        ("n*n < b", "Wide(n) * Wide(n) < Wide(b)"),
        ("to_float(a*2)", "static_cast<double>(Wide(a) * 2L)"),
        ("a + b + f", "static_cast<double>(Wide(a) + Wide(b)) + f"),
        ("to_int(f)*2", "Int(wir_to_int(f) * 2L)"),
    ],
)
def test_text(text: str, cpp: str) -> None:
    assert number_text(ir.parse_expr(text, KINDS), leaf, RANGES) == cpp

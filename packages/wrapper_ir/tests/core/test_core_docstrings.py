"""The text forms that docstrings of expression nodes show: each one parses to that node, and prints back."""

from __future__ import annotations

import re

import pytest

from wrapper_ir.expr import NODE_TYPES, Sym, SymKind, parse_expr, print_expr
from wrapper_ir.expr.base import Expr
from wrapper_ir.types import DType, TensorType
from wrapper_ir.values import Value

SPAN = re.compile(r"`([^`]+)`")
SYMBOLS = dict.fromkeys(("a", "b", "c", "s0"), SymKind.INT)
TENSOR = Value("x", TensorType(DType.F32, (Sym("s0"),), (Sym("s0"),)))
NODES = [
    (cls, text) for cls in NODE_TYPES for text in SPAN.findall((cls.__doc__ or "").partition("Text:")[2])
]


@pytest.mark.parametrize(("cls", "text"), NODES, ids=[f"{c.__name__}: {t}" for c, t in NODES])
def test_the_form_of_a_node(cls: type[Expr], text: str) -> None:
    parsed = parse_expr(text, SYMBOLS, {"x": TENSOR})
    assert isinstance(parsed, cls)
    assert print_expr(parsed) == text


def test_every_node_shows_a_form() -> None:
    assert {cls for cls, _ in NODES} == set(NODE_TYPES)

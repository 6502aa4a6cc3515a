"""The text forms that docstrings show are text: each one parses to the op that it documents, and prints back."""

from __future__ import annotations

import re

import pytest

from wrapper_ir import parse_program, print_program
from wrapper_ir.expr import NODE_TYPES, Sym, SymKind, parse_expr, print_expr
from wrapper_ir.expr.base import Expr
from wrapper_ir.ops import OP_CLASSES, OpBase
from wrapper_ir.types import DType, TensorType
from wrapper_ir.values import Value

HEAD = """wir 0.1
target cpu

symbol s0 : int backed [1, 64] hint 8
symbol s1 : int backed [1, 64] hint 8
symbol u0 : int unbacked [0, 64]

extern "aten::topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)"
"""
SPAN = re.compile(r"`([^`]+)`")
OPERAND = re.compile(r"%[\w.]+")


def text_forms(cls: type[OpBase]) -> list[str]:
    """Code spans behind `Text:` that are whole ops: they start with a word or a result and are more than a word."""
    _, _, shown = (cls.__doc__ or "").partition("Text:")
    spans = [" ".join(span.split()) for span in SPAN.findall(shown)]
    return [s for s in spans if " " in s]


FORMS = [(cls, text) for cls in OP_CLASSES for text in text_forms(cls)]


def definition(name: str) -> str:
    """An op that defines an operand as the kind of value that its name stands for in the docstrings."""
    if name in ("%s", "%buf0.s"):
        return f"{name} = alloc_storage 256"
    if name == "%t":
        return f"{name} = call aten::topk(%input, 5) : results"
    if name == "%e":
        return f"{name} = record_event @cpu"
    return f"{name} = alloc f32[64]"


@pytest.mark.parametrize(("cls", "text"), FORMS, ids=[f"{c.__name__}: {t}" for c, t in FORMS])
def test_the_form_of_an_op(cls: type[OpBase], text: str) -> None:
    left, equals, right = text.partition(" = ")
    made = set(OPERAND.findall(left)) if equals and left.startswith("%") else set()
    used = dict.fromkeys(OPERAND.findall(right if made else text))
    before = "\n".join(definition(name) for name in used if name not in made)
    head = f"{HEAD}\nfunc @main(%input: f32[64]) {{\n{before}\n"
    position = len(parse_program(f"{head}return\n}}\n").main.body) - 1
    end = "" if text.startswith("return") else "return"
    program = parse_program(f"{head}{text}\n{end}\n}}\n")
    assert type(program.main.body[position]) is cls
    assert parse_program(print_program(program)) == program


def test_every_op_shows_a_form() -> None:
    assert {cls for cls, _ in FORMS} == set(OP_CLASSES)


# --- expressions -------------------------------------------------------------------------------------------------

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

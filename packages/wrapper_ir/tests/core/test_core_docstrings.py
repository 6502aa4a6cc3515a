"""Text forms in docstrings after `Text:`: each one parses to the documented class and prints back."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import get_args

import pytest

import wrapper_ir
from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.expr import Sym, SymKind, print_expr
from wrapper_ir.expr.base import Expr
from wrapper_ir.support.versions import TEXT

SPAN = re.compile(r"`([^`]+)`")
SYMBOLS = dict.fromkeys(("a", "b", "c", "s0"), SymKind.INT)
TENSOR = ir.Value("x", ir.TensorType(ir.DType.F32, (Sym("s0"),), (Sym("s0"),)))
NODE = frozenset(ir.NODE_TYPES)

MAIN = "func @main() {\n  return\n}\n"
DECLARED = "symbol s0 : int backed\nsymbol u0 : int unbacked\nsymbol s1 : int backed\n"
STORAGE = "storage(4096)"
NAMES = {"s": STORAGE, "pool": STORAGE, "buf0.s": STORAGE, "e": "event", "t": "results", "i": "int"}
"""Types of the values that the forms of ops use; all others are tensors."""
AROUND = {
    ir.Param: f"{DECLARED}func @main(\0) {{\n  return\n}}\n",
    ir.Function: f"{DECLARED}{MAIN}\n\0\n  return\n}}\n",
    ir.SymbolDef: f"\0\n{MAIN}",
    ir.Constant: f"\0\n{MAIN}",
    ir.Packing: f"const %p : f32[4, 32, 16] \0\n{MAIN}",
    ir.ExternDef: f"\0\n{MAIN}",
    ir.Target: f"\0\n{MAIN}",
    ir.Provenance: "func @main() {\n  return #1\n}\n\nprovenance\n  #1 \0\n",
    ir.Device: f"target \0\n{MAIN}",
    **dict.fromkeys(get_args(ir.Type), f"{DECLARED}func @main(%x: \0) {{\n  return\n}}\n"),
    ir.MemorySpace: "func @main() {\n  %s = alloc_storage 64 \0\n  return\n}\n",
    ir.KernelParam: 'kernel foreign @k runtime "r" (\0) "x"\n' + MAIN,
    ir.Requirement: 'kernel cpp @k entry "k" ()\n  requires(\0)\n  "x"\n' + MAIN,
    ir.CppSource: 'kernel cpp @k entry "k" () "x"\n  \0\n' + MAIN,
    ir.Variant: f"kernel multi @k choose measure (i64 n)\n  variants(\0)\n{MAIN}",
    ir.TritonConfig: 'kernel triton @k entry "k" ()\n  configs(\0)\n  grid(1)\n  "x"\n' + MAIN,
    **dict.fromkeys(
        (ir.CppKernel, ir.ForeignKernel, ir.MultiKernel, ir.OperatorKernel, ir.TritonKernel), f"\0\n{MAIN}"
    ),
}
"""The text around a form, which replaces the null character."""


def all_classes() -> Iterator[type]:
    """Yields the classes of the core with a syntax, or a docstring with a form."""
    for module in pkgutil.walk_packages(wrapper_ir.__path__, "wrapper_ir."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__ == module.name and ("Text:" in (cls.__doc__ or "") or vars(cls).get("syntax")):
                yield cls


def forms(cls: type) -> list[str]:
    """Returns the examples in the docstring's paragraph after `Text:`."""
    paragraph = inspect.cleandoc(cls.__doc__ or "").partition("Text:")[2].partition("\n\n")[0]
    return SPAN.findall(" ".join(paragraph.split()))


CLASSES = list(all_classes())
NODES = [(cls, text) for cls in CLASSES if cls in NODE for text in forms(cls)]
RECORDS = [(cls, text) for cls in CLASSES if cls not in NODE for text in forms(cls)]


@pytest.mark.parametrize(("cls", "text"), NODES, ids=[f"{c.__name__}: {t}" for c, t in NODES])
def test_the_form_of_a_node(cls: type[Expr], text: str) -> None:
    parsed = ir.parse_expr(text, SYMBOLS, {"x": TENSOR})
    assert isinstance(parsed, cls)
    assert print_expr(parsed) == text


def in_function(text: str) -> str:
    """Returns a function with the op, whose operands are parameters."""
    made, equals, _ = text.partition(" = ")
    results = re.findall(r"%([\w.]+)", made) if equals and text.startswith("%") else []
    operands = [name for name in dict.fromkeys(re.findall(r"%([\w.]+)", text)) if name not in results]
    params = ", ".join(f"%{name}: {NAMES.get(name, 'f32[8]')}" for name in operands)
    last = "" if text.startswith("return") else "  return\n"
    return f"{DECLARED}func @main({params}) {{\n  \0\n{last}}}\n"


@pytest.mark.parametrize(("cls", "text"), RECORDS, ids=[f"{c.__name__}: {t}" for c, t in RECORDS])
def test_the_form_of_a_record_or_an_op(cls: type, text: str) -> None:
    around = in_function(text) if cls in ir.OPS else AROUND[cls]
    form = text.replace("{{{ ", "{{{\n").replace(" }}}", "\n}}}")
    program = parse_program(f"wir {TEXT.version}\n{around.replace(chr(0), form)}")
    printed = print_program(program)
    assert text in " ".join(printed.split())
    before = around.partition("\0")[0].rpartition("\n")[2]
    assert "".join(f"{before}{text}".split()) in "".join(printed.split())


def test_every_class_with_a_syntax_shows_a_form() -> None:
    assert [cls.__name__ for cls in CLASSES if not forms(cls)] == []
    assert set(CLASSES) >= {*ir.NODE_TYPES, *ir.OPS}

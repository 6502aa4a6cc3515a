"""Every expression node as a size, a number for a kernel, a condition and a result, over symbols of every
kind and range.

Valid programs become graphs, and equal the interpreter.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from py_wrapper import TORCH_MACHINE
from tests.common.compare import assert_same
from tests.common.forms import FORMS
from wrapper_ir import ir
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import ExpressionError, WirError
from wrapper_ir.expr import Apply, Expr, Sym, SymKind, evaluate, print_expr
from wrapper_ir.expr import operators as ops
from wrapper_ir.plugins.protocols import KernelRuntime, LoadedKernel
from wrapper_ir_runtime.interp import InterpOptions, run
from wrapper_ir_tools.testing.numbers import random_bool, random_float, random_int

KINDS = {"s0": SymKind.INT, "n": SymKind.INT, "f": SymKind.FLOAT, "b": SymKind.BOOL}
ENV = {"s0": 7, "n": 5, "f": 0.75, "b": True}


class Store:
    """The runtime `pytest-store`: its kernel writes a number into a tensor."""

    kind = "pytest-store"

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        assert isinstance(kernel, ir.ForeignKernel)

        def store(out: Tensor, value: int) -> None:
            out.fill_(value)

        return store

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        return {k.name: self.load(k, target) for k in kernels}


def find_runtime(kind: str) -> KernelRuntime:
    assert kind == Store.kind
    return Store()


PROGRAM = """wir 0.5
target cpu

symbol s0 : int {size}
symbol n : int {item}
symbol f : float {number}
symbol b : bool {bool}

kernel foreign @store runtime "pytest-store" (write i64* out, i64 value) {{{{{{
}}}}}}

func @main(%x: f32[s0], %i: i64[], %r: f64[], %p: bool[]) {{
  define s0 = size(%x, 0)
  define n = item(%i)
  define f = item(%r)
  define b = item(%p)
{body}
}}
"""
BODIES = {
    "size": "  %y = alloc f32[{e}] zero(call)\n  return %y",
    "two_sizes": "  %y = alloc f32[{e}, {e}]{{{e}, 1}} zero(call)\n  return %y",
    "stride": "  %y = view %x : f32[1]{{{e}}}\n  return %y",
    "argument": "  %y = alloc i64[1]\n  launch @store(%y, {e})\n  return %y",
    "condition": '  assert {e} "as it says"\n  return',
    "result": "  return {e}",
}
BACKED = (
    "backed",
    "backed hint 7",
    "backed [0, 64]",
    "backed [0, 64] hint 7",
    "backed [2, *] hint 7",
    "backed [*, 9]",
)
SIZES = (*BACKED, "backed [7, 7] hint 7", "unbacked", "unbacked [0, 64]")
ITEMS = (
    "unbacked",
    "unbacked [0, 64]",
    "unbacked [2, *]",
    "unbacked [*, 9]",
    "unbacked [-3, 9]",
    "backed hint 3",
)


def program_of(position: str, e: str, **kinds: str) -> ir.Program:
    said = {"size": "backed [0, 64]", "item": "unbacked", "number": "unbacked", "bool": "unbacked", **kinds}
    return wrapper_ir.parse_program(PROGRAM.format(body=BODIES[position].format(e=e), **said))


def inputs() -> list[Any]:
    return [torch.ones(7), torch.tensor(5), torch.tensor(0.75, dtype=torch.float64), torch.tensor(True)]


def value_of(e: Expr) -> Any:  # Any: a number, or None
    try:
        return evaluate(e, ENV)
    except (ExpressionError, ArithmeticError, ValueError):
        return None


def runs(position: str, e: Expr) -> bool:
    """Returns whether a run must succeed."""
    value = value_of(e)
    if value is None:
        return False
    if position in ("size", "two_sizes", "stride"):
        return bool(0 <= value <= 1 << 6)
    return bool(value) if position == "condition" else abs(value) < 1 << 62


def check(position: str, e: Expr, program: ir.Program) -> None:
    artifact = bare_artifact(program)
    quiet = InterpOptions(find_runtime=find_runtime)
    want = run(artifact, inputs(), TORCH_MACHINE, quiet) if runs(position, e) else None
    for form in FORMS:
        module = fx_converter.convert(artifact, FxOptions(kernel_calls=form, find_runtime=find_runtime))
        module.graph.lint()
        assert all("val" in node.meta for node in module.graph.nodes)
        assert narrowed(module, program) == {}
        if want is not None:
            assert_same(module(*inputs()), want)
            assert_same(fx.Interpreter(module, garbage_collect_values=False).run(*inputs()), want)


def narrowed(module: fx.GraphModule, program: ir.Program) -> dict[str, Any]:
    """Symbols that have other ranges than the program declares: conversion assumes nothing."""
    env = next(n.meta["val"].fake_mode.shape_env for n in module.graph.nodes if n.op == "placeholder")
    assert env.guards == []
    assert env.deferred_runtime_asserts == {}
    by_name = {str(s): r for s, r in env.var_to_range.items()}
    found = {}
    for symbol in program.symbols:
        known = by_name.get(symbol.name)
        if known is not None and symbol.kind is SymKind.INT:
            for said, has in ((symbol.lower, known.lower), (symbol.upper, known.upper)):
                if said is not None and said != has:
                    found[symbol.name] = known
    return found


INT_LEAVES = [Sym("s0", SymKind.INT), Sym("n", SymKind.INT)]


def drawn(position: str, rng: random.Random) -> Expr:
    if position == "condition":
        return random_bool(rng, INT_LEAVES, 2)
    if position == "result":
        return rng.choice((random_int, random_float, random_bool))(rng, INT_LEAVES)
    return random_int(rng, INT_LEAVES)


@pytest.mark.slow
@given(
    st.sampled_from(sorted(BODIES)), st.sampled_from(SIZES), st.sampled_from(ITEMS), st.integers(0, 1 << 30)
)
def test_random_expressions(position: str, size: str, item: str, seed: int) -> None:
    e = drawn(position, random.Random(seed))
    program = program_of(position, print_expr(e), size=size, item=item)
    try:
        wrapper_ir.verify(program)
    except WirError:
        return
    check(position, e, program)


# --- every node, by hand: also such that have no value for some numbers

WHOLE = [
    "s0-10", "8 % (s0-5)", "n", "s0*n", "3*s0 - n", "s0//n", "n//(s0-7)", "ceildiv(s0, n)", "ceildiv(s0, n-9)", "s0 % n",
    "min(s0, n)", "max(s0, n, 3)", "where(b, s0, n)", "where(s0 > n, s0-n, 0)", "where(n != 0, s0//n, 1)", "s0**2", "s0**n",
    "2**n", "s0**12", "abs(n-9)", "bit_and(s0, n)", "bit_or(s0, n)", "bit_xor(s0, n)", "to_int(f*9.0)", "floor(f*9.0)",
    "ceil(f*9.0)", "round(f*9.0)", "to_int(s0 / n)", "to_int(b)", "min(s0 // (n-5), 3)", "to_int(sqrt(to_float(s0)))",
    "to_int(round_to(f, 1))", "-n", "64-s0*s0",
]  # fmt: skip
FLOATS = [
    "f", "f + to_float(n)", "s0 / n", "n / (s0-7)", "f**2.5", "f**to_float(n)", "min(f, 0.5)", "max(f, to_float(s0))",
    "where(b, f, 1.5)", "where(f > 1.0, f, to_float(n))", "abs(f)", "round_to(f, 1)", "f // 0.25", "f % 0.5", "-f",
    *(f"{name}(f)" for name in ("sqrt", "exp", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan")),
    "log(f+1.0)", "asinh(f)",
]  # fmt: skip
TRUTHS = [
    "b", "not b", "s0 > n", "s0 == n", "s0 != n", "s0 < n", "s0 <= n", "s0 >= n", "b and s0 > 3", "b or n > 3", "b and true",
    "n != 0 and s0 % n == 2", "n == 0 or s0 // n == 1", "to_bool(n)", "to_bool(f)", "f >= 0.5", "where(b, s0 > 3, n > 3)",
    "s0-9 > 0 and 8 // (s0-9) > 1", "sqrt(f-1.0) > 0.0", "not (s0-10) % 8 == 1",
]  # fmt: skip
TABLE = [
    *((position, text) for position in ("size", "two_sizes", "argument", "result") for text in WHOLE),
    *(("result", text) for text in (*FLOATS, *TRUTHS)),
    *(("condition", text) for text in TRUTHS),
]


@pytest.mark.slow
@pytest.mark.parametrize("row", range(len(TABLE)), ids=[f"{position}: {text}" for position, text in TABLE])
def test_every_node(row: int) -> None:
    """Over some ranges of each symbol, other ones in the next row."""
    position, text = TABLE[row]
    checked = 0
    for number in range(row, row + 3):
        size, item = SIZES[2 * number % len(SIZES)], ITEMS[number % len(ITEMS)]
        program = program_of(position, text, size=size, item=item)
        try:
            wrapper_ir.verify(program)
        except WirError:
            continue
        check(position, ir.parse_expr(text, KINDS), program)
        checked += 1
    assert checked


def test_the_table_has_every_node() -> None:
    seen: set[object] = set()
    waiting = [ir.parse_expr(text, KINDS) for _, text in TABLE]
    while waiting:
        e = waiting.pop()
        seen.add(e.op if isinstance(e, Apply) else type(e))
        waiting += e.args if isinstance(e, Apply) else ()
    assert set(ops.OPERATORS.rows) - seen == set()

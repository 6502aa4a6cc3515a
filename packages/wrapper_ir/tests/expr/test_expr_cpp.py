"""Printed C++ computes the results of `evaluate`: one program, compiled once, over a grid of signs."""

from __future__ import annotations

import itertools
import math
import shutil
import subprocess
from pathlib import Path

import pytest
from packages.wrapper_ir.tests.expr.python_text import compile_python

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import CPP_HELPERS, Expr, Float, Int, Number, Sym, SymKind, evaluate, to_cpp
from wrapper_ir.expr import operators as ops

KINDS = {"a": SymKind.INT, "b": SymKind.INT, "f": SymKind.FLOAT, "g": SymKind.FLOAT, "p": SymKind.BOOL}
INTS = (-7, -4, -3, -1, 1, 2, 3, 4, 8)
FLOATS = (-7.5, -2.0, -0.5, 0.25, 2.0, 6.5)
GRID: list[dict[str, Number]] = [
    {"a": a, "b": b, "f": f, "g": g, "p": a > b}
    for (a, b), (f, g) in zip(
        itertools.product((*INTS, 0), INTS), itertools.cycle(itertools.product(FLOATS, FLOATS))
    )
] + [{"a": 3, "b": -2, "f": f, "g": g, "p": True} for f, g in itertools.product(FLOATS, FLOATS)]

TEXTS = [
    "a//b",
    "ceildiv(a, b)",
    "a % b",
    "a//b*b + a % b",
    "-a//b",
    "-(a//b)",
    "a//4 - 3*b//2",
    "ceildiv(a + 1, 4)*4",
    "f//g",
    "f % g",
    "ceildiv(f, g)",
    "a//f",
    "a % f",
    "a / b",
    "f / b",
    "a + f*b - 2",
    "a*b*-3 - -5",
    "min(a, b, 0)",
    "max(a, f, 0)",
    "where(a < b, a, f)",
    "where(p and a < b, a//b, b) + 1",
    "a < b or not p and f >= g",
    "(a < b) == p",
    "p + p + a",
    "to_bool(a) or p",
    "a and p",
    "not a",
    "a**3",
    "f**2",
    "2**abs(a)",
    "abs(a) + abs(f)",
    "bit_and(a, 6) + bit_or(b, 1) - bit_xor(a, b)",
    "abs(a) - 9223372036854775807",
    "-9223372036854775808 + abs(a)",
    "to_int(f) + floor(f) + 10*ceil(f) + 100*round(f)",
    "to_float(a) / 3.0",
    "round_to(f, 1) + round_to(g, 0)",
    "a < inf",
    "1e+300*f",
]
ARCS = (ops.OPERATORS.by_name["asin"], ops.OPERATORS.by_name["acos"])
EXPRS = (
    [ir.parse_expr(text, KINDS) for text in TEXTS]
    + [op(ops.ABS(Sym("f", SymKind.FLOAT))) for op in (ops.ABS, *ops.UNARY_FUNCTIONS) if op not in ARCS]
    + [op(Float(0.25)) for op in ARCS]
    + [op(Sym(name, kind)) for op in ops.CONVERSIONS for name, kind in KINDS.items()]
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[Expr, list[float]]:
    """Returns the output of the compiled program, by expression over the grid."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("cpp")
    rows = ", ".join(f"{{{e['a']}L, {e['b']}L, {e['f']!r}, {e['g']!r}, {str(e['p']).lower()}}}" for e in GRID)
    prints = "\n".join(f"    show({to_cpp(e)});" for e in EXPRS)
    source = f"""{CPP_HELPERS}
struct Row {{ int64_t a, b; double f, g; bool p; }};
static const Row rows[] = {{{rows}}};
static void show(int64_t v) {{ std::printf("%ld ", v); }}
static void show(bool v) {{ std::printf("%d ", int(v)); }}
static void show(double v) {{ std::printf("%.17g ", v); }}
int main() {{
  for (const Row& row : rows) {{
    const auto [a, b, f, g, p] = row;
{prints}
    std::printf("\\n");
  }}
}}
"""
    (folder / "grid.cpp").write_text(source)
    command = [
        compiler,
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wno-unused",
        "-Werror",
        "-fsanitize=undefined",
        "-fno-sanitize-recover",
    ]
    subprocess.run([*command, "grid.cpp", "-o", "grid"], cwd=folder, check=True, timeout=300)
    output = subprocess.run(
        [Path(folder, "grid")], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    table = [line.split() for line in output.splitlines()]
    return {
        e: [
            float(row[i]) if "." in row[i] or "n" in row[i] or "e" in row[i] else int(row[i]) for row in table
        ]
        for i, e in enumerate(EXPRS)
    }


@pytest.mark.parametrize("e", EXPRS, ids=str)
def test_cpp_agrees(e: Expr, results: dict[Expr, list[float]]) -> None:
    python = compile_python(e, tuple(KINDS))
    for env, value in zip(GRID, results[e], strict=True):
        expected = evaluate(e, env)
        assert python(*env.values()) == expected
        if any(node.op in ops.FUNCTIONS for node in walk(e)):
            assert math.isclose(value, expected, rel_tol=1e-15), (env, to_cpp(e))
        else:
            assert value == expected, (env, to_cpp(e))


def walk(e: Expr) -> list[Expr]:
    return [e, *itertools.chain.from_iterable(map(walk, e.args))]


@pytest.mark.parametrize(
    ("text", "cpp"),
    [
        ("a - 3*b//2 + 1", "a - wir_floordiv(3L * b, 2L) + 1L"),
        ("a*(b + 1)", "a * (b + 1L)"),
        ("a + f", "static_cast<double>(a) + f"),
        ("2*f", "2.0 * f"),
        ("a < b and not p", "a < b && !p"),
        ("where(p, a, b)*2", "(p ? a : b) * 2L"),
        ("-9223372036854775808", "(-9223372036854775807L - 1L)"),
        ("inf", "double(INFINITY)"),
    ],
)
def test_cpp_text(text: str, cpp: str) -> None:
    assert to_cpp(ir.parse_expr(text, KINDS)) == cpp


def test_ints_outside_int64_are_refused() -> None:
    with pytest.raises(ExpressionError, match="WIR404"):
        to_cpp(Int(2**63))


def test_atoms_need_a_name() -> None:
    size = ir.SizeOf(ir.Value("x", ir.TensorType(ir.DType.F32, (), ())), 1)
    with pytest.raises(ExpressionError, match="WIR403"):
        to_cpp(size + 1)
    assert to_cpp(size + 1, name=lambda e: "x_size_1") == "x_size_1 + 1L"

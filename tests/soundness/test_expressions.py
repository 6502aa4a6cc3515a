"""Expressions have the same values, and are refused with the same codes, in every engine and form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import cpp_wrapper
from cpp_wrapper.library.batch import build_libraries
from tests.cpp.cpp_case import FAST
from tests.soundness.expression_cases import BEYOND_128_BITS, ENVIRONMENTS, EXPECTED, EXPRESSIONS
from tests.soundness.expression_engines import (
    KINDS,
    NAMED,
    Outcome,
    Run,
    engines,
    outcome,
    program_of,
    values,
)
from wrapper_ir import ir
from wrapper_ir.expr import Apply, Number
from wrapper_ir.expr import operators as ops


def expected(value: Number | str) -> Outcome:
    return value if isinstance(value, str) else [repr(value)]


def check_named(ways: Mapping[str, Mapping[str, Run]]) -> None:
    """Checks that every engine, by kind, returns the expected values."""
    wrong = []
    for text, env, want in EXPECTED:
        kind = ir.parse_expr(text, KINDS).kind
        for name, call in ways[kind].items():
            found = outcome(call, [NAMED[kind].index(text), *values(env)])
            if found != expected(want):
                wrong.append(f"{name}: {text} with {env} is {found}, not {want}")
    assert not wrong, "\n".join(wrong)


def test_written_out_values(tmp_path: Path) -> None:
    check_named({kind: engines(program_of(texts, kind), tmp_path) for kind, texts in NAMED.items()})


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    """The programs of both tables in C++, by table and kind."""
    folder = tmp_path_factory.mktemp("expressions")
    tables = {
        f"{name}_{kind}": (texts, kind)
        for name, table in (("named", NAMED), ("all", EXPRESSIONS))
        for kind, texts in table.items()
    }
    emitted = [(cpp_wrapper.emit(program_of(*one)), folder / f"{name}.so") for name, one in tables.items()]
    build_libraries(emitted, FAST)
    return {path.stem: cpp_wrapper.load(path).boxed for _, path in emitted}


@pytest.mark.slow
def test_written_out_values_in_cpp(libraries: Mapping[str, Run]) -> None:
    check_named({kind: {"cpp": libraries[f"named_{kind}"]} for kind in NAMED})


def is_close(found: Outcome, want: Outcome) -> bool:
    """Returns whether both are one float up to the last bits, in which functions of the C library may differ."""
    if not (isinstance(found, list) and isinstance(want, list) and "." in want[0]):
        return False
    return [float(x) for x in found] == pytest.approx([float(x) for x in want], rel=1e-15, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_every_engine_agrees_with_the_interpreter(
    kind: str, libraries: Mapping[str, Run], tmp_path: Path
) -> None:
    texts = EXPRESSIONS[kind]
    interpreter, *others = {
        **engines(program_of(texts, kind), tmp_path),
        "cpp": libraries[f"all_{kind}"],
    }.items()
    wrong = []
    for number, text in enumerate(texts):
        for env in ENVIRONMENTS:
            args = [number, *values(env)]
            want = outcome(interpreter[1], args)
            for name, call in others:
                found = outcome(call, args)
                if name == "cpp" and (
                    is_close(found, want) or (found == "WIR408" and text in BEYOND_128_BITS)
                ):
                    continue
                if found != want:
                    wrong.append(f"{name}: {text} with {env} is {found}, not {want}")
    assert not wrong, "\n".join(wrong)


def test_the_table_has_every_operator() -> None:
    seen: set[object] = set()
    waiting = [ir.parse_expr(text, KINDS) for texts in EXPRESSIONS.values() for text in texts]
    while waiting:
        e = waiting.pop()
        seen |= {e.op} if isinstance(e, Apply) else set()
        waiting += e.args
    assert set(ops.OPERATORS.rows) == seen

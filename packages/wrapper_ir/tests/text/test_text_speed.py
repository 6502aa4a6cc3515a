"""Printing and parsing take linear time, and importing the package loads little."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import pytest

from wrapper_ir import Program, from_json, ir, parse_program, print_program, to_json
from wrapper_ir.builder import ProgramBuilder, tensor_type
from wrapper_ir.expr import Sym
from wrapper_ir_tools.testing.catalogue import RELU


def _chain(ops: int) -> Program:
    """Returns a program of about `ops` ops with fifty different types and a provenance for each step."""
    b = ProgramBuilder()
    b.symbol(ir.SymbolDef(name="s0"))
    f = b.function("main")
    x = f.param("x", tensor_type(ir.DType.F32, (Sym("s0"), 64)))
    f.define("s0", ir.SizeOf(x, 0))
    for n in range(ops // 4):
        f.prov = ir.Provenance(nodes=(f"relu_{n}",), locations=(f"model.py:{n}",), frontend_name=f"buf{n}")
        rows = Sym("s0") * (1 + n % 50)
        storage = f.alloc_storage(f"buf{n}.s", rows * 256)
        y = f.view(f"buf{n}", storage, tensor_type(ir.DType.F32, (rows, 64)))
        f.launch(RELU, (x, y, rows * 64))
        f.append(ir.Free(storage=storage))
    f.ret((x,))
    return b.finish()


def _seconds(run: Callable[[], object]) -> float:
    """Returns the best time of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["print", "parse", "to_json", "from_json"])
def test_linear_time(form: str) -> None:
    times = []
    for ops in (2_000, 16_000):
        program = _chain(ops)
        runs: dict[str, Callable[[], object]] = {
            "print": partial(print_program, program),
            "parse": partial(parse_program, print_program(program)),
            "to_json": partial(to_json, program),
            "from_json": partial(from_json, to_json(program)),
        }
        times.append(_seconds(runs[form]))
    assert times[1] < 8 * times[0] * 2.5, times


@pytest.mark.conformance
def test_hundred_thousand_ops() -> None:
    program = _chain(100_000)
    text = print_program(program)
    assert _seconds(partial(print_program, program)) < 4
    assert _seconds(partial(parse_program, text)) < 12


def test_import_is_light() -> None:
    code = (
        "import sys, json, wrapper_ir; before = sorted(sys.modules); wrapper_ir.parse_program('wir 0.5');"
        "wrapper_ir.to_json; print(json.dumps([before, sorted(sys.modules)]))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    bare, loaded = json.loads(process.stdout)
    assert not {"sympy", "torch", "numpy"} & set(loaded)
    assert {m for m in bare if m.startswith("wrapper_ir.")} == {
        "wrapper_ir.support",
        "wrapper_ir.support.lazy",
    }  # which loads the others

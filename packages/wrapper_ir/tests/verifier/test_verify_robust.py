"""The verifier never raises, whatever a program object contains, and its time is linear in the ops."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any

import pytest

from wrapper_ir import check, ir
from wrapper_ir.expr import Float, Int, Sym
from wrapper_ir.verifier import RULES
from wrapper_ir_tools.testing import RandomOptions, random_program
from wrapper_ir_tools.testing.corrupt import corrupt

JUNK: tuple[Any, ...] = (  # Any: that is the point
    None, 7, -1, "text", "", (), (None,), Int(-3), Float(2.5), Sym("nobody"), ir.DType.F16, object(),
    ir.Value("junk", ir.ScalarType(Sym("x").kind)), ir.Value("junk", None),
    frozenset(), b"bytes", 1 << 80,
)  # fmt: skip


def _spoil(thing: Any, rng: random.Random, depth: int = 0) -> Any:  # Any: any part of a program
    """Replaces one nested field by an object of a wrong type."""
    if isinstance(thing, tuple) and thing and rng.random() < 0.95:
        i = rng.randrange(len(thing))
        return (*thing[:i], _spoil(thing[i], rng, depth + 1), *thing[i + 1 :])
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type) and (depth < 2 or rng.random() < 0.9):
        field = rng.choice(dataclasses.fields(thing))
        return dataclasses.replace(thing, **{field.name: _spoil(getattr(thing, field.name), rng, depth + 1)})
    if isinstance(thing, ir.Value) and rng.random() < 0.7:
        return ir.Value(thing.name, _spoil(thing.type, rng, depth + 1))
    return rng.choice(JUNK)


def _program(seed: int) -> ir.Program:
    return random_program(random.Random(seed), 8, RandomOptions(executable=seed % 2 == 0))


@pytest.mark.parametrize("seed", range(25))
def test_any_object_gives_findings_and_no_exception(seed: int) -> None:
    rng = random.Random(seed)
    program = _program(seed)
    for _ in range(10):
        for finding in check(_spoil(program, rng)):
            assert finding.code in RULES
            assert str(finding)


@pytest.mark.parametrize("seed", range(25))
def test_corrupted_programs_give_findings_and_no_internal_one(seed: int) -> None:
    program = _program(seed)
    for k in range(10):
        broken, description = corrupt(program, random.Random(f"{seed} {k}"))
        assert broken != program
        assert "WIR001" not in {d.code for d in check(broken)}, description


def test_twice_the_ops_take_about_twice_the_time() -> None:
    def seconds(program: ir.Program) -> float:
        best = 1e9
        for _ in range(5):
            start = time.process_time()
            assert check(program) == ()
            best = min(best, time.process_time() - start)
        return best

    def repeated(times: int) -> ir.Program:
        return random_program(random.Random(1), 40 * times, RandomOptions(executable=True))

    small, large = repeated(1), repeated(8)
    ratio = sum(len(f.body) for f in large.functions) / sum(len(f.body) for f in small.functions)
    assert seconds(large) < 2.5 * ratio * seconds(small)

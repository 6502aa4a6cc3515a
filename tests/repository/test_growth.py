"""Work of the core over families of programs: at most so much more for twice as many parts, counted in calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from tools.bench.growing_programs import FAMILIES, NO_SIZES
from tools.bench.growing_steps import COUNTS_BYTES, STEPS
from wrapper_ir import check, parse_program
from wrapper_ir.verifier.insert_checks import insert_checks
from wrapper_ir_passes.cleanup.derive_frees import derive_frees


def _calls(run: Callable[[], object]) -> int:
    """Returns the number of function calls, including those in C."""
    count = 0

    def called(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.slow
def test_calls_may_nest_deeper_than_the_stack() -> None:
    program = derive_frees(parse_program(FAMILIES["call chain"][0](150)))
    for step in STEPS:
        STEPS[step](program)


def test_guards_of_each_size_prove_its_window() -> None:
    program = derive_frees(parse_program(FAMILIES["guards"][0](60)))
    assert insert_checks(program) == program


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_twice_the_parts_take_little_more_than_twice_the_work(family: str, step: str) -> None:
    make, first = FAMILIES[family]
    if family in NO_SIZES and step in COUNTS_BYTES:
        pytest.skip("its bytes under the hints are no int64")
    # The search of a plan has a budget, which shorter programs do not use up.
    parts = first if step == "plan-memory" else min(first, 50)
    few, many = (derive_frees(parse_program(make(n))) for n in (parts, 2 * parts))
    least = _calls(lambda: STEPS[step](few))
    most = _calls(lambda: STEPS[step](many))
    assert most <= 2.5 * least, (least, most)
    assert check(many) == ()

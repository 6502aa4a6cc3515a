"""Work of the core over families of programs: at most so much more for twice as many parts, counted in calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from tools.bench.growing_programs import FAMILIES
from wrapper_ir import check, ir, parse_program
from wrapper_ir.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_tools.report import memory_report

STEPS: dict[str, Callable[[ir.Program], object]] = {
    "verify": check,
    "derive-frees": derive_frees,
    "stats": program_stats,
    "memory": memory_report,
    "plan-memory": PlanMemory().run,
}


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


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_twice_the_parts_take_little_more_than_twice_the_work(family: str, step: str) -> None:
    make, first = FAMILIES[family]
    if family == "product of sums" and step not in ("verify", "derive-frees"):
        pytest.skip("its bytes under the hints are no int64")
    parts = min(first, 50)
    few, many = (derive_frees(parse_program(make(n))) for n in (parts, 2 * parts))
    least = _calls(lambda: STEPS[step](few))
    most = _calls(lambda: STEPS[step](many))
    assert most <= 2.5 * least, (least, most)
    assert check(many) == ()

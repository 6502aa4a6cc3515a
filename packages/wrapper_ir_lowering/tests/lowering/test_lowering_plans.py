"""Plans of small programs, compared with golden files (`--update-golden` rewrites them)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wrapper_ir import ir, parse_program, verify
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_lowering import LoweringOptions, lower, print_plan, print_step
from wrapper_ir_lowering.steps import STEPS, CallOperator, Given
from wrapper_ir_passes.memory.persistent_pools import with_persistent_pools

PLANS = Path(__file__).parent / "plans"
NAMES = sorted(path.stem for path in PLANS.glob("*.wir"))
OPTIONS = {
    "collectives_that_are_finished": LoweringOptions(join_waits=True),
    "persistent_memory": LoweringOptions(persistent_buffers=True),
    "windows_that_are_kept": LoweringOptions(keep_windows=True),
}


def program_of(name: str) -> ir.Program:
    program = parse_program((PLANS / f"{name}.wir").read_text(encoding="utf-8"))
    verify(program)
    options = OPTIONS.get(name)
    if options is not None and options.persistent_buffers:
        return with_persistent_pools(program, Analyses(program))  # as emitters do
    return program


@pytest.mark.parametrize("name", NAMES)
def test_plan(name: str, update_golden: bool) -> None:
    text = print_plan(lower(bare_artifact(program_of(name)), OPTIONS.get(name)))
    path = PLANS / f"{name}.plan"
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_step_is_in_one_of_them() -> None:
    plans = [lower(bare_artifact(program_of(name)), OPTIONS.get(name)) for name in NAMES]
    assert {type(step) for plan in plans for f in plan.functions for step in f.steps} == set(STEPS)


@pytest.mark.parametrize("name", NAMES)
def test_steps_say_where_they_come_from(name: str) -> None:
    """Steps keep the order of their ops, so that the code of an op stays together; steps without an op come
    first.
    """
    plan = lower(bare_artifact(program_of(name)), OPTIONS.get(name))
    for function in plan.functions:
        positions = [step.at.position for step in function.steps]
        assert positions == sorted(positions)
        for step in function.steps:
            at = step.at
            assert at.op is (None if at.position < 0 else function.function.body[at.position])


def test_views_can_be_left_apart_from_their_storages() -> None:
    """For emitters that delegate one of the two to another component."""
    plan = lower(bare_artifact(program_of("whole_and_flat_storages")), LoweringOptions(fuse_views=False))
    assert "%one.s = allocate f32[4*s0] over %one.s\n  %one = window %one.s : f32[s0, 4]" in print_plan(plan)


def test_windows_can_be_left_in_their_places() -> None:
    plan = lower(bare_artifact(program_of("windows_of_constants")), LoweringOptions(hoist_windows=False))
    assert not plan.windows
    assert "%a = window %w + 4 : f32[4]\n  %b = window %a + 2 : f32[2]" in print_plan(plan)


def test_checks_can_be_left_out() -> None:
    options = LoweringOptions(assertions=False, check_results=False)
    text = print_plan(lower(bare_artifact(program_of("checks")), options))
    assert re.findall(r"^  check\S*", text, re.MULTILINE) == ["  check_inputs", "  check_storages"]


def test_every_argument_of_a_schema_is_there() -> None:
    plan = lower(bare_artifact(program_of("arguments_in_schema_order")))
    calls = [step for step in plan.main.steps if isinstance(step, CallOperator)]
    for call in calls:
        assert [a.schema for a in call.arguments] == list(call.operator.schema.args)
    forms = [a.given for a in calls[0].arguments]
    assert forms == [Given.POSITION, Given.POSITION, Given.KEYWORD, Given.KEYWORD]
    assert "padding=[0, 0] default, dilation=[1, 1] default" in print_step(calls[2], plan.program)


def test_plans_follow_from_programs_alone() -> None:
    first, second = (print_plan(lower(bare_artifact(program_of("control")))) for _ in range(2))
    assert first == second

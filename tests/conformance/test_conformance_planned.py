"""The tool that runs the operator database with memory plans."""

from __future__ import annotations

from tools.conformance.cases import CaseId
from tools.conformance.planned import SIDES
from tools.conformance.pool import Answer, Job
from tools.conformance.sides import Result, render, result_of

CASE = CaseId("addr", "float32", 0, 2026)


def test_the_page_counts_slots() -> None:
    """There is nothing of Inductor's to compare with."""
    done: dict[str, object] = {
        "failures": [],
        "source": None,
        "programs": 1,
        "random": False,
        "kernels": 1,
        "slots": 3,
    }
    found = result_of(SIDES, Answer(Job(SIDES.ours, CASE), 1.0, done))
    assert found == Result(SIDES.ours, CASE, "", 3)
    failures = [{"stage": "planned", "code": "Mismatch", "reason": "result 0"}]
    wrong = result_of(SIDES, Answer(Job(SIDES.ours, CASE), 1.0, {**done, "failures": failures, "slots": 0}))
    text = render(SIDES, [found, wrong], 2)
    assert "1 of them have slots, 3 in all." in text
    assert "| planned | 2 | 1 | 50.0 % |" in text
    assert "Inductor's is" not in text

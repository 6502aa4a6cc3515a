"""The tool that compares FX graphs with Inductor's on the operator database."""

from __future__ import annotations

import pytest

from tests.common.torch_versions import since
from tools.conformance.cases import CaseId
from tools.conformance.fx import SIDES
from tools.conformance.pool import Answer, Job
from tools.conformance.sides import Result, counted_cases, render, result_of, share

OURS, STOCK = SIDES.ours, SIDES.stock
CASE = CaseId("abs", "float32", 0, 2026)


def test_answers_become_results() -> None:
    stock = Answer(Job(STOCK, CASE), 1.0, {"graphs": 1, "error": "NotImplementedError: no"})
    assert result_of(SIDES, stock) == Result(STOCK, CASE, "NotImplementedError: no")
    lost = Answer(Job(OURS, CASE), 1.0, None, lost="killed by SIGSEGV", at="fx")
    assert result_of(SIDES, lost) == Result(OURS, CASE, "fx crash: killed by SIGSEGV")
    failures = [{"stage": "fx", "code": "Mismatch", "reason": "nodes without a value"}]
    done = {"failures": failures, "source": None, "programs": 1, "random": False, "kernels": 1}
    assert result_of(SIDES, Answer(Job(OURS, CASE), 1.0, done)).error == "fx Mismatch: nodes without a value"


def test_the_page_shows_both_sides() -> None:
    other = CaseId("add", "float32", 0, 2026)
    results = [
        Result(OURS, CASE, ""),
        Result(OURS, other, "fx FX101: a | b"),
        Result(STOCK, CASE, ""),
        Result(STOCK, other, ""),
    ]
    assert share(results, OURS) == 0.5
    text = render(SIDES, results, 2)
    assert "| fx_converter | 2 | 1 | 50.0 % |" in text
    assert "| Inductor's converter | 2 | 2 | 100.0 % |" in text
    assert "| `add float32 #0` | fx FX101: a \\| b |" in text


@pytest.mark.skipif(not since("2.13"), reason="the repository has no verdicts for torch before 2.13")
def test_cases_are_those_that_inductor_gets_right() -> None:
    cases = counted_cases(None)
    assert len(cases) > 1000
    assert counted_cases(5) == cases[:5]

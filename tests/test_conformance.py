"""Torch's operator database: a sample of it through every stage, and the tool that runs it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tools.conformance.__main__ import main
from tools.conformance.cases import (
    SEED,
    Call,
    CaseId,
    every_nth,
    list_cases,
    load_call,
    op_table,
    tolerances_of,
)
from tools.conformance.compare import Mismatch, Observed, assert_same, observe
from tools.conformance.pool import Answer, Job, PoolOptions, run_jobs
from tools.conformance.report import failing_lines, render, summarise
from tools.conformance.results import Outcome, Store, Upstream, outcome_of, tidy, verdict_of
from tools.conformance.run import Again, jobs_of, open_store, pool_options, run_cases
from tools.conformance.stages import CRASH, Failure, Stage, check_case
from tools.conformance.upstream import Verdict
from wrapper_ir.interp import Interpreter

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "conformance"
PAGE = ROOT / "docs" / "conformance.md"
SAMPLE = 40


@pytest.mark.slow
def test_sample(tmp_path: Path) -> None:
    """Cases at equal distances all over the database: what fails is listed in the page, with its reason."""
    cases = every_nth(list_cases(op_table()), SAMPLE)
    store = open_store(tmp_path)
    jobs = jobs_of(cases, store, Again.NONE)
    options = pool_options(OUT, workers=2, timeout=300.0)
    summary = run_cases(cases, jobs, store, options, lambda result: None)
    assert len(summary.judged) == len(cases)
    assert len(summary.counted) > 0.8 * len(cases)
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""  # no page yet: nothing is excused
    unlisted = [j for j in summary.failing if f"`{j.case}`" not in page]
    assert not unlisted, "\n".join(failing_lines(unlisted))


@pytest.mark.conformance
def test_whole_database() -> None:
    """At least 99 % of the cases that upstream gets right pass; writes the page."""
    assert main([]) == 0


def case_of(op: str, dtype: str = "float32", sample: int = 0) -> CaseId:
    return CaseId(op, dtype, sample, SEED)


def call_of(*inputs: torch.Tensor) -> Call:
    return Call(lambda *tensors: sum(tensors), inputs, None)


class TestCases:
    def test_every_operator_with_a_cpu_kernel_has_a_case(self) -> None:
        table = op_table()
        cases = list_cases(table)
        assert {case.op for case in cases} == {n for n, op in table.items() if op.supported_dtypes("cpu")}
        assert len(set(cases)) == len(cases)

    def test_the_second_case_has_another_dtype_and_depends_on_the_seed(self) -> None:
        table = op_table()
        by_op: dict[str, list[CaseId]] = {}
        for case in list_cases(table, seed=1):
            by_op.setdefault(case.op, []).append(case)
        assert all(len({case.dtype for case in cases}) == len(cases) <= 2 for cases in by_op.values())
        assert list_cases(table, seed=1) == list_cases(table, seed=1)
        assert {c.dtype for c in list_cases(table, seed=1)} >= {
            "bfloat16",
            "float64",
            "int64",
            "bool",
            "complex64",
        }
        first, second = ([(c.op, c.dtype, c.sample) for c in list_cases(table, seed=s)] for s in (1, 2))
        assert first != second

    def test_inputs_are_equal_each_time(self) -> None:
        table, case = op_table(), case_of("addmm", "bfloat16", 2)
        one, two = load_call(case, table), load_call(case, table)
        assert len(one.inputs) == 3
        for a, b in zip(one.inputs, two.inputs, strict=True):
            assert torch.equal(a, b)
        got, want = (observe(call, call.function, SEED).results for call in (one, two))
        assert torch.equal(got, want)

    def test_a_sample_beyond_the_last_is_the_last(self) -> None:
        table = op_table()
        far, farther = (load_call(case_of("angle", sample=n), table) for n in (900, 1000))
        assert all(map(torch.equal, far.inputs, farther.inputs))

    def test_stated_tolerances_are_never_narrower_than_the_defaults(self) -> None:
        stated = [tolerances_of(op, torch.float32) for op in op_table().values()]
        rtol, atol = torch.testing._comparison.default_tolerances(torch.float32)
        assert any(t is not None for t in stated)
        assert any(t is None for t in stated)
        assert all(t[0] >= rtol and t[1] >= atol for t in stated if t is not None)

    def test_every_nth(self) -> None:
        cases = [case_of("op", sample=n) for n in range(100)]
        assert [c.sample for c in every_nth(cases, 4)] == [0, 25, 50, 75]
        assert every_nth(cases[:2], 4) == cases[:2]


class TestCompare:
    @pytest.mark.parametrize(
        ("got", "message"),
        [
            (torch.tensor([1.0, 2.5]), "not close"),
            (torch.tensor([1.0, 2.0], dtype=torch.float64), "dtype"),
            (torch.tensor([[1.0, 2.0]]), "shape"),
            ((torch.tensor([1.0, 2.0]),), "structure"),
            (3.0, "structure|eager has"),
        ],
    )
    def test_different_results(self, got: object, message: str) -> None:
        want = Observed(torch.tensor([1.0, 2.0]), ())
        with pytest.raises(Mismatch, match=message):
            assert_same(Observed(got, ()), want, call_of())

    def test_a_changed_input_is_a_difference(self) -> None:
        x = torch.ones(2)
        call = Call(lambda t: t.mul_(2), (x,), None)
        assert_same(observe(call, call.function, 0), observe(call, call.function, 0), call)
        with pytest.raises(Mismatch, match="input after the call"):
            assert_same(observe(call, lambda t: t * 2, 0), observe(call, call.function, 0), call)
        assert torch.equal(x, torch.ones(2))

    def test_undefined_values(self) -> None:
        a, b = (Observed(torch.full((2,), value), ()) for value in (1.0, 2.0))
        assert_same(a, b, call_of(), values=False)
        with pytest.raises(Mismatch):
            assert_same(a, Observed(torch.ones(3), ()), call_of(), values=False)

    def test_tolerances_are_for_inexact_results_only(self) -> None:
        wide = dataclasses.replace(call_of(), tolerances=(0.5, 0.5))
        assert_same(Observed(torch.tensor(1.0), ()), Observed(torch.tensor(1.4), ()), wide)
        with pytest.raises(Mismatch):
            assert_same(Observed(torch.tensor(10), ()), Observed(torch.tensor(11), ()), wide)

    def test_copies_keep_strides_offset_and_overlap(self) -> None:
        base = torch.arange(6.0)
        inputs = (
            base[1:].as_strided((2, 3), (1, 1), 2),
            base[:1].expand(4),
            torch.ones(2, dtype=torch.complex64).conj(),
        )
        call = Call(lambda *tensors: [(t.stride(), t.storage_offset()) for t in tensors], inputs, None)
        seen = observe(call, call.function, 0)
        assert seen.results == [(t.stride(), t.storage_offset()) for t in inputs]
        assert all(map(torch.equal, seen.inputs, inputs))
        assert not {t.data_ptr() for t in seen.inputs} & {t.data_ptr() for t in inputs}


class TestStages:
    def test_a_right_case_passes_every_stage_in_order(self) -> None:
        announced: list[Stage] = []
        case = case_of("cumsum")
        assert check_case(case, load_call(case, op_table()), announced.append) == []
        assert announced == list(Stage)

    def test_a_wrong_result_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        boxed = Interpreter.boxed

        def wrong(self: Interpreter[torch.Tensor], args: list[Any]) -> tuple[Any, ...]:
            return tuple(result + 1 for result in boxed(self, args))

        monkeypatch.setattr(Interpreter, "boxed", wrong)
        case = case_of("cumsum")
        failures = check_case(case, load_call(case, op_table()), lambda stage: None)
        assert [(f.stage, f.code) for f in failures] == [(Stage.INTERPRETER, "Mismatch")]

    def test_what_cannot_be_captured_has_a_code_and_ends_there(self) -> None:
        call = Call(lambda x: x[: int(x.sum())] if x.sum() > 0 else x, (torch.ones(3),), None)
        failures = check_case(case_of("none"), call, lambda stage: None)
        assert [(f.stage, f.code) for f in failures] == [(Stage.CAPTURE, "FE101")]

    def test_what_a_failure_blocks(self) -> None:
        def blocked(stage: Stage, code: str = "WIR001") -> list[Stage]:
            return [later for later in Stage if Failure(stage, code, "").blocks(later)]

        assert blocked(Stage.CAPTURE) == list(Stage)[1:-1]
        assert blocked(Stage.VERIFY) == [Stage.INTERPRETER, Stage.PYTHON]
        assert blocked(Stage.TEXT) == blocked(Stage.PYTHON) == blocked(Stage.BACKEND) == []
        assert blocked(Stage.TEXT, CRASH) == list(Stage)[3:]


FAKE_WORKER = """
import json, os, sys, time
for line in sys.stdin:
    op = json.loads(line)["case"]["op"]
    print(json.dumps({"at": "text"}), flush=True)
    if op == "crash":
        os.abort()
    if op == "hang":
        time.sleep(1000)
    if op == "exit":
        sys.exit(3)
    print(json.dumps({"done": {"failures": [], "pid": os.getpid()}}), flush=True)
"""


def answers_of(
    tmp_path: Path, ops: list[str], *, workers: int = 2, jobs: int = 100, seconds: float = 20.0
) -> dict[int, Answer]:
    work = [Job("ours", case_of(op, sample=n)) for n, op in enumerate(ops)]
    options = PoolOptions(
        logs=tmp_path, command=(sys.executable, "-c", FAKE_WORKER), workers=workers, jobs=jobs, start=seconds,
        timeout=seconds,
    )  # fmt: skip
    return {answer.job.case.sample: answer for answer in run_jobs(work, options)}


class TestPool:
    def test_crashes_and_exits_are_reported_and_the_run_goes_on(self, tmp_path: Path) -> None:
        answers = answers_of(tmp_path, ["ok", "crash", "ok", "exit", "ok", "crash", "ok"])
        assert sorted(answers) == list(range(7))
        assert all(answers[n].done is not None for n in (0, 2, 4, 6))
        assert {answers[n].lost for n in (1, 5)} == {"killed by SIGABRT"}
        assert (answers[3].lost, answers[3].at) == ("exit status 3", "text")

    def test_a_job_that_hangs_is_ended(self, tmp_path: Path) -> None:
        answers = answers_of(tmp_path, ["hang", "ok"], workers=1, seconds=0.5)
        assert answers[0].done is None
        assert answers[0].lost == "no answer within 0.5 s"
        assert answers[1].done is not None

    def test_workers_are_replaced(self, tmp_path: Path) -> None:
        answers = answers_of(tmp_path, ["ok"] * 4, workers=1, jobs=2)
        pids = [answer.done["pid"] for answer in answers.values() if answer.done is not None]
        assert pids[0] == pids[1] != pids[2] == pids[3]


class TestResults:
    def test_lost_workers_fail_where_they_were(self) -> None:
        answer = Answer(Job("ours", case_of("x")), 1.0, None, lost="killed by SIGSEGV", at="interpreter")
        outcome = outcome_of(answer, "s")
        assert outcome.failures == (Failure(Stage.INTERPRETER, CRASH, "killed by SIGSEGV"),)
        assert [stage for stage in Stage if outcome.passed_in(stage)] == list(Stage)[:4]
        assert outcome_of(dataclasses.replace(answer, at=""), "s").failures[0].stage is Stage.CAPTURE
        assert verdict_of(answer).verdict == Verdict(0, "killed by SIGSEGV")

    def test_results_survive_and_later_ones_win(self, tmp_path: Path) -> None:
        store = Store(tmp_path, [tmp_path / "up.jsonl"])
        bad = Outcome(case_of("x"), "s", 1.0, (Failure(Stage.TEXT, "WIR501", "why"),))
        good = dataclasses.replace(bad, failures=())
        for result in (
            bad,
            good,
            Upstream(case_of("x"), Verdict(1)),
            Upstream(case_of("y"), Verdict(0, "no")),
        ):
            store.add(result)
        with (tmp_path / "outcomes.jsonl").open("a") as file:
            file.write('{"case": {"op": "cut o')
        again = Store(tmp_path, [tmp_path / "up.jsonl"])
        assert again.outcomes == store.outcomes == {case_of("x"): good}
        assert again.verdicts == store.verdicts == {case_of("x"): Verdict(1), case_of("y"): Verdict(0, "no")}
        again.write_verdicts([case_of("y")], tmp_path / "shipped" / "up.jsonl")
        assert Store(tmp_path / "other", [tmp_path / "shipped" / "up.jsonl"]).verdicts == {
            case_of("y"): Verdict(0, "no")
        }

    def test_reasons_hold_no_paths_and_addresses(self) -> None:
        assert tidy(f"at {ROOT}/tests/x.py: <object at 0x7f50ed76f880>") == "at tests/x.py: <object at 0x…>"
        assert len(tidy("x" * 5000)) == 400

    @pytest.mark.parametrize(
        ("again", "ops"),
        [
            (Again.NONE, ["new"]),
            (Again.FAILED, ["bad", "new"]),
            (Again.STALE, ["good", "bad", "new"]),
            (Again.ALL, ["good", "bad", "new"]),
        ],
    )
    def test_what_runs_again(self, tmp_path: Path, again: Again, ops: list[str]) -> None:
        store = Store(tmp_path, [tmp_path / "up.jsonl"])
        store.add(Outcome(case_of("good"), "old sources", 1.0))
        store.add(Outcome(case_of("bad"), "old sources", 1.0, (Failure(Stage.JSON, "X", ""),)))
        store.add(Upstream(case_of("good"), Verdict(1)))
        jobs = jobs_of([case_of(op) for op in ("good", "bad", "new")], store, again)
        assert [job.case.op for job in jobs if job.what == "ours"] == ops
        assert [job.case.op for job in jobs if job.what == "upstream"] == ["bad", "new"]


class TestReport:
    @pytest.fixture
    def page(self) -> str:
        untraceable = (Failure(Stage.CAPTURE, "FE101", "no"),)
        results = {
            "good": ((), Verdict(1)),
            "bad": ((Failure(Stage.VERIFY, "WIR012", "a | b"),), Verdict(2)),
            "both": (untraceable, Verdict(1, "wrong")),
            "eager": (untraceable, Verdict(0)),
            "worse": ((*untraceable, Failure(Stage.BACKEND, "X", "why")), Verdict(0)),
        }
        outcomes = {
            case_of(op): Outcome(case_of(op), "s", 1.0, failures) for op, (failures, _) in results.items()
        }
        verdicts = {case_of(op): verdict for op, (_, verdict) in results.items()}
        summary = summarise(outcomes, outcomes, verdicts)
        assert summary.share == 0.5
        return render(summary, SEED)

    @pytest.mark.parametrize(
        "line",
        [
            "| capture | 2 | 2 | 100.00 % |",
            "| verify | 1 | 2 | 50.00 % |",
            "| interpreter | 1 | 2 | 50.00 % |",
            "| backend | 3 | 4 | 75.00 % |",
            "| **all** | 2 | 4 | 50.00 % |",
            "| `bad float32 #0` | verify | WIR012 | a \\| b |",
            "| `worse float32 #0` | backend | X | why |",
            "| `both float32 #0` | wrong | capture FE101 |",
            "| `eager float32 #0` | leaves it to eager | capture FE101 |",
        ],
    )
    def test_lines(self, page: str, line: str) -> None:
        assert line in page.splitlines()

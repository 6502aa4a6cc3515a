"""The tool that runs torch's operator database: crashes, stored results, reruns, the page."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from tools.conformance.cases import SEED, CaseId
from tools.conformance.pool import Answer, Job, PoolError, PoolOptions, run_jobs
from tools.conformance.programs import Source
from tools.conformance.reasons import failure_detail, failure_reason, stock_reason
from tools.conformance.report import render
from tools.conformance.results import Outcome, StockVerdict, Store, outcome_of, tidy, verdict_of
from tools.conformance.run import Again, Only, jobs_of
from tools.conformance.stages import CRASH, Failure, Stage
from tools.conformance.stock import Verdict
from tools.conformance.summary import summarise

ROOT = Path(__file__).parents[2]


def case_of(op: str, dtype: str = "float32", sample: int = 0) -> CaseId:
    return CaseId(op, dtype, sample, SEED)


FAKE_WORKER = """
import json, os, sys, time
print(json.dumps({"at": ""}), flush=True)
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
    tmp_path: Path,
    ops: list[str],
    *,
    workers: int = 2,
    jobs: int = 100,
    seconds: float = 20.0,
    budget: float | None = None,
) -> dict[int, Answer]:
    work = [Job("ours", case_of(op, sample=n)) for n, op in enumerate(ops)]
    options = PoolOptions(
        logs=tmp_path, command=(sys.executable, "-c", FAKE_WORKER), workers=workers, jobs=jobs, start=seconds,
        timeout=seconds, budget=budget,
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

    def test_workers_that_cannot_start_end_the_run(self, tmp_path: Path) -> None:
        options = PoolOptions(logs=tmp_path, command=(sys.executable, "-c", "raise SystemExit('no torch')"))
        with pytest.raises(PoolError, match="before it was ready"):
            list(run_jobs([Job("ours", case_of("x"))], options))
        assert "no torch" in "".join(log.read_text() for log in tmp_path.iterdir())

    def test_a_budget_ends_the_run_between_and_within_jobs(self, tmp_path: Path) -> None:
        answers = answers_of(tmp_path, ["ok", "hang", "ok"], workers=1, budget=2.0)
        assert sorted(answers) == [0]

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
        store = Store(tmp_path / "outcomes.jsonl", [tmp_path / "up.jsonl"])
        bad = Outcome(case_of("x"), "s", 1.0, (Failure(Stage.TEXT, "WIR501", "why"),))
        good = dataclasses.replace(bad, failures=())
        for result in (
            bad,
            good,
            StockVerdict(case_of("x"), Verdict(1)),
            StockVerdict(case_of("y"), Verdict(0, "no")),
        ):
            store.add(result)
        with (tmp_path / "outcomes.jsonl").open("a") as file:
            file.write('{"case": {"op": "cut o')
        again = Store(tmp_path / "outcomes.jsonl", [tmp_path / "up.jsonl"])
        assert again.outcomes == store.outcomes == {case_of("x"): good}
        assert again.verdicts == store.verdicts == {case_of("x"): Verdict(1), case_of("y"): Verdict(0, "no")}
        again.write_verdicts([case_of("y")], tmp_path / "shipped" / "up.jsonl")
        assert Store(tmp_path / "other" / "outcomes.jsonl", [tmp_path / "shipped" / "up.jsonl"]).verdicts == {
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
        store = Store(tmp_path / "outcomes.jsonl", [tmp_path / "up.jsonl"])
        store.add(Outcome(case_of("good"), "old sources", 1.0))
        store.add(Outcome(case_of("bad"), "old sources", 1.0, (Failure(Stage.JSON, "X", ""),)))
        store.add(StockVerdict(case_of("good"), Verdict(1)))
        jobs = jobs_of([case_of(op) for op in ("good", "bad", "new")], store, again)
        assert [job.case.op for job in jobs if job.what == "ours"] == ops
        assert [job.case.op for job in jobs if job.what == "stock"] == ["bad", "new"]
        for only in Only:
            one_side = jobs_of([case_of(op) for op in ("good", "bad", "new")], store, again, only)
            assert one_side == [job for job in jobs if job.what == only]


def differs(by: str) -> Failure:
    reason = (
        "result 0: Tensor-likes are not close! Mismatched elements: 1 / 72 (1.4%) Greatest absolute difference: "
        f"{by} at index (2, 0) (up to 1e-05 allowed) Greatest relative difference: 0.1 at index (2, 0)"
    )
    return Failure(Stage.PYTHON, "Mismatch", reason)


class TestReasons:
    @pytest.mark.parametrize(
        ("failure", "reason", "detail"),
        [
            (
                differs("0.01"),
                "The results are further from the expected ones than the tolerances allow.",
                "1 / 72 elements differ, by up to 0.01 where 1e-05 is allowed",
            ),
            (
                Failure(
                    Stage.CAPTURE,
                    "FE101",
                    "[FE101] torch.export cannot trace F: the result of aten.equal.default depends on data hint: try",
                ),
                "torch.export refuses it: what it does depends on the values of tensors.",
                "torch.export cannot trace F: the result of aten.equal.default depends on data",
            ),
            (
                Failure(Stage.CAPTURE, CRASH, "killed by SIGSEGV"),
                "The process that ran the case died.",
                "killed by SIGSEGV",
            ),
            (
                Failure(Stage.CAPTURE, "FE999", "[FE999] The thing is odd. It is very odd."),
                "It is refused with FE999.",
                "The thing is odd",
            ),
        ],
    )
    def test_failures(self, failure: Failure, reason: str, detail: str) -> None:
        assert failure_reason(failure) == reason
        assert failure_detail(failure) == detail

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            ("Mismatch: result 0: Tensor-likes are not close!", "Its results are not eager's."),
            ("killed by SIGSEGV", "Its process dies."),
            ("eager: AssertionError: no", "Eager cannot run it."),
            ("InductorError: whatever", "Its lowering fails."),
            ("ValueError: whatever", "It fails."),
        ],
    )
    def test_stock(self, error: str, reason: str) -> None:
        assert stock_reason(error) == reason


class TestReport:
    @pytest.fixture
    def page(self) -> str:
        untraceable = (Failure(Stage.CAPTURE, "FE101", "no"),)
        results = {
            "good": ((), Verdict(1)),
            "bad": ((Failure(Stage.VERIFY, "WIR012", "a | b"),), Verdict(2)),
            "wrong": ((differs("0.01"),), Verdict(1)),
            "both": (untraceable, Verdict(1, "Mismatch: it is not close")),
            "eager": (untraceable, Verdict(0)),
        }
        outcomes = {
            case_of(op): Outcome(case_of(op), "s", 1.0, failures, source=Source.EXPORT, programs=1)
            for op, (failures, _) in results.items()
        }
        graphs = case_of("graphs")
        outcomes[graphs] = Outcome(graphs, "s", 1.0, source=Source.COMPILE, programs=3, random=True)
        verdicts = {case_of(op): verdict for op, (_, verdict) in results.items()} | {graphs: Verdict(2)}
        backwards = sorted(outcomes, reverse=True)
        summary = summarise([*backwards, case_of("new")], outcomes, verdicts)
        assert (summary.share, summary.missing) == (0.5, 1)
        page = render(summary, SEED)
        assert render(summarise(outcomes, outcomes, verdicts), SEED) == page  # in any order
        return page

    @pytest.mark.parametrize(
        "line",
        [
            "| capture | 4 | 4 | 100.00 % |",
            "| verify | 3 | 4 | 75.00 % |",
            "| python | 2 | 4 | 50.00 % |",
            "| **all** | 2 | 4 | 50.00 % |",
            "| `bad float32 #0` | verify | It is refused with WIR012. | WIR012 | a \\| b |",
        ],
    )
    def test_lines(self, page: str, line: str) -> None:
        assert line in page.splitlines()

    @pytest.mark.parametrize(
        "words",
        [
            "Of 6 cases, stock `torch.compile` compiles and gets right 4: these count. It compiles nothing of 1, "
            "which eager runs (of these, 0 pass every path below all the same), and refuses or gets wrong 1.",
            "torch.export in 3 of the cases that count, and in 1 that it refuses from the 3 graphs",
            "eager runs them.** On our side, of 1: - torch.export refuses it. (capture FE101) 1: `eager float32 #0`.",
            "**Its results are not eager's.** On our side, of 1: - torch.export refuses it. (capture FE101) 1: `both ",
            "1 have random values.",
        ],
    )
    def test_sentences(self, page: str, words: str) -> None:
        assert words in " ".join(page.split())

    def test_cases_of_one_reason_stand_together(self, page: str) -> None:
        rows = [line for line in page.splitlines() if line.startswith("| `")]
        assert [row.split(" | ")[2] for row in rows] == sorted(row.split(" | ")[2] for row in rows)

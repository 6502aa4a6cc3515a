"""Torch's operator database: a sample of it through every stage, and the stages of a case."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import py_wrapper
from tools.conformance import stages
from tools.conformance.__main__ import main
from tools.conformance.cases import (
    SEED,
    Call,
    CaseId,
    list_cases,
    load_call,
    op_table,
    stratified,
    tolerances_of,
)
from tools.conformance.compare import Mismatch, Observed, assert_same, observe
from tools.conformance.programs import Kernels, Source
from tools.conformance.report import failing_lines
from tools.conformance.run import Again, jobs_of, open_store, pool_options, run_cases
from tools.conformance.stages import CRASH, STAGES, Checked, Failure, Stage, check_case
from wrapper_ir.artifact import Artifact
from wrapper_ir_runtime.interp import Interpreter

ROOT = Path(__file__).parents[2]
OUT = ROOT / "out" / "conformance"
PAGES = {
    Kernels.CPP: ROOT / "docs" / "conformance.md",
    Kernels.TRITON: ROOT / "docs" / "conformance-triton.md",
}
SAMPLES = {Kernels.CPP: 14, Kernels.TRITON: 5}


@pytest.mark.slow
@pytest.mark.parametrize("kernels", [Kernels.CPP, Kernels.TRITON])
def test_sample(tmp_path: Path, kernels: Kernels) -> None:
    """Cases of all dtypes from the whole database: the page lists the failing ones with their reasons."""
    cases = stratified(list_cases(op_table()), SAMPLES[kernels])
    store = open_store(tmp_path)
    jobs = jobs_of(cases, store, Again.NONE)
    options = pool_options(OUT, workers=1, timeout=300.0, kernels=kernels)
    summary = run_cases(cases, jobs, store, options, lambda result: None)
    assert not summary.missing
    assert len(summary.counted) > 0.8 * len(cases)
    path = PAGES[kernels]
    page = path.read_text(encoding="utf-8") if path.exists() else ""  # no page yet: nothing is excused
    unlisted = [j for j in summary.failing if f"`{j.case}`" not in page]
    assert not unlisted, "\n".join(failing_lines(unlisted))


@pytest.mark.conformance
def test_whole_database() -> None:
    """At least 99 % of the cases that Inductor gets right pass; writes the page."""
    assert main([]) == 0


@pytest.mark.conformance
def test_whole_database_with_triton_kernels() -> None:
    """The same in Triton's interpreter."""
    assert main(["--kernels", "triton"]) == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels run on a GPU, and there is none")
def test_whole_database_on_a_gpu() -> None:
    """float32 and bfloat16, on the cases that stock torch.compile gets right there."""
    assert main(["--kernels", "gpu", "--workers", str(os.cpu_count() or 1)]) == 0


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

    def test_a_sample_has_every_dtype_in_its_share(self) -> None:
        cases = [case_of("op", "int64" if n % 4 else "bool", n) for n in range(100)]
        chosen = stratified(cases, 8)
        assert [c.dtype for c in chosen].count("int64") == 6
        assert [c.sample for c in chosen] == sorted(c.sample for c in chosen)
        assert {c.sample // 34 for c in chosen if c.dtype == "int64"} == {0, 1, 2}
        assert stratified(cases[:2], 4) == cases[:2]


class TestCompare:
    @pytest.mark.parametrize(
        ("got", "message"),
        [
            (torch.tensor([1.0, 2.5]), "not close"),
            (torch.tensor([1.0, 2.0], dtype=torch.float64), "dtype"),
            (torch.tensor([[1.0, 2.0]]), "shape"),
            ((torch.tensor([1.0, 2.0]),), "structure"),
            (3.0, "structure|expected"),
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
        checked = check_case(case, load_call(case, op_table()), announced.append)
        assert checked == Checked((), Source.EXPORT, programs=1, random=False)
        assert announced == list(STAGES[Kernels.CPP])

    def test_triton_kernels_are_told_apart(self) -> None:
        """Triton kernels are captured instead of C++, and run by the runtime that emitted Python finds for
        them.
        """
        announced: list[Stage] = []
        case = case_of("randn", "bfloat16")
        checked = check_case(case, load_call(case, op_table()), announced.append, Kernels.TRITON)
        assert announced == list(STAGES[Kernels.TRITON])
        assert (checked.failures, checked.programs, checked.random) == ((), 1, True)

    def test_a_wrong_result_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        boxed = Interpreter.boxed

        def wrong(self: Interpreter[torch.Tensor], args: list[Any]) -> tuple[Any, ...]:
            return tuple(result + 1 for result in boxed(self, args))

        monkeypatch.setattr(Interpreter, "boxed", wrong)
        case = case_of("cumsum")
        failures = check_case(case, load_call(case, op_table()), lambda stage: None).failures
        assert [(f.stage, f.code) for f in failures] == [(Stage.INTERPRETER, "Mismatch")]

    def test_random_values_are_inductors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        case = case_of("randn")
        call = load_call(case, op_table())
        assert check_case(case, call, lambda stage: None) == Checked(
            (), Source.EXPORT, 1, random=True, kernels=1
        )
        eager = observe(call, call.function, case.seed)
        # In its default configuration Inductor has a separate generator: eager's values are wrong ones.
        monkeypatch.setattr(stages, "stock_values", lambda call, seed: eager)
        failing = {f.stage for f in check_case(case, call, lambda stage: None).failures}
        assert failing == {Stage.INTERPRETER, Stage.PYTHON, Stage.FX, Stage.BACKEND}


def branching(x: torch.Tensor) -> torch.Tensor:
    """Branches on elements, which no export can express."""
    return (x + 1).relu() if x.sum() > 0 else x * 2


class TestGraphs:
    """Cases that torch.export refuses: the graphs of torch.compile pass through the stages."""

    def test_all_graphs_pass_every_stage(self) -> None:
        announced: list[Stage] = []
        checked = check_case(case_of("none"), Call(branching, (torch.ones(3),), None), announced.append)
        assert checked == Checked((), Source.COMPILE, programs=2, random=False, kernels=2)
        assert announced == [Stage.CAPTURE, *STAGES[Kernels.CPP]]

    def test_a_wrong_graph_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        right = py_wrapper.compile

        class Wrong:
            def __init__(self, artifact: Artifact) -> None:
                self.right = right(artifact)

            def boxed(self, args: list[Any]) -> tuple[Any, ...]:
                return tuple(result + 1 for result in self.right.boxed(args))

        monkeypatch.setattr(py_wrapper, "compile", Wrong)
        failures = check_case(
            case_of("none"), Call(branching, (torch.ones(3),), None), lambda stage: None
        ).failures
        assert [f.stage for f in failures] == [Stage.PYTHON]

    def test_where_there_is_no_graph_the_refusal_stands(self) -> None:
        # How many residuals there are depends on the rank: neither export nor torch.compile traces it.
        call = Call(lambda x: torch.linalg.lstsq(x, x).solution, (torch.eye(3),), None)
        checked = check_case(case_of("none"), call, lambda stage: None)
        assert [(f.stage, f.code) for f in checked.failures] == [(Stage.CAPTURE, "FE101")]
        assert (checked.source, checked.programs) == (None, 0)


class TestFailures:
    def test_what_a_failure_blocks(self) -> None:
        def blocked(stage: Stage, code: str = "WIR001") -> list[Stage]:
            return [later for later in Stage if Failure(stage, code, "").blocks(later)]

        assert blocked(Stage.CAPTURE) == [s for s in Stage if s not in (Stage.CAPTURE, Stage.BACKEND)]
        run = [Stage.INTERPRETER, Stage.PYTHON, Stage.FX, Stage.CPP, Stage.NATIVE, Stage.PLANNED]
        assert blocked(Stage.VERIFY) == run
        assert blocked(Stage.TEXT) == blocked(Stage.PYTHON) == blocked(Stage.BACKEND) == []
        assert blocked(Stage.TEXT, CRASH) == list(Stage)[3:]

"""The memo of a program: each analysis runs once, and passes, verifier and emitters share the memo."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import pytest

from wrapper_ir import Analyses, check, ir, parse_program, verify
from wrapper_ir.analysis.references import called_operators, launched_kernels, loop_bodies
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.verifier.insert_checks import insert_checks
from wrapper_ir_passes import PASSES, run_pipeline
from wrapper_ir_passes.cleanup.strip import StripDebug

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64]
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::neg(Tensor self) -> Tensor"
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}
kernel cpp @unused entry "k" (read f32* src, write f32* dst) {{{
}}}

"""
TEXT = (
    HEAD
    + """func @main(%x: f32[s0, 8]) {
  define s0 = size(%x, 0)
  %v = view %x : f32[s0 - 1, 8]
  %a = alloc f32[64]
  launch @k(%v, %a)
  %y = call_subgraph @inner(%a) : f32[64]
  return %y
}

func @inner(%x: f32[64]) {
  %y = call aten::relu(%x) : f32[64]
  return %y
}
"""
)


def _program() -> ir.Program:
    return run_pipeline(parse_program(TEXT), "derive-frees")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts analyses of aliasing by function, and runs of all checks."""
    from wrapper_ir.analysis import aliasing
    from wrapper_ir.analysis import memo as analyses
    from wrapper_ir.verifier import walk

    counts: Counter[str] = Counter()
    analyse = aliasing.analyse_aliasing
    check_program = walk.check_program  # type: ignore[attr-defined]  # where the walk calls it

    def counted(function: ir.Function, context: Analyses) -> aliasing.Aliasing:
        counts[function.name] += 1
        return analyse(function, context)

    def checked(*args: object) -> None:
        counts["checks"] += 1
        check_program(*args)  # type: ignore[arg-type]  # whatever it was called with

    monkeypatch.setattr(analyses, "analyse_aliasing", counted)
    monkeypatch.setattr(walk, "check_program", checked)
    return counts


def test_an_analysis_runs_once() -> None:
    analyses, calls = Analyses(_program()), Counter[str]()

    def sizes(memo: Analyses) -> int:
        calls["program"] += 1
        return len(memo.program.functions)

    def ops(function: ir.Function, memo: Analyses) -> int:
        assert memo is analyses
        calls[function.name] += 1
        return len(function.body)

    for _ in range(2):
        assert analyses.get(sizes) == 2
        assert [analyses.get_for(f, ops) for f in analyses.program.functions] == [10, 3]
    assert calls == {"program": 1, "main": 1, "inner": 1}


def test_a_memo_serves_its_own_program_alone() -> None:
    program = _program()
    analyses = Analyses(program)
    assert Analyses.of(program, analyses) is analyses
    assert analyses.after(program) is analyses
    equal = dataclasses.replace(program)
    assert equal == program
    assert analyses.after(equal) is not analyses
    assert Analyses.of(program).program is program


def test_another_programs_memo_is_passed_over() -> None:
    broken = parse_program(TEXT.replace("return %y", "return", 1))
    assert check(broken, analyses=Analyses(_program()))


def test_references() -> None:
    analyses = Analyses(_program())
    assert set(analyses.get(launched_kernels)) == {"k"}
    assert set(analyses.get(called_operators)) == {"aten::relu"}
    assert analyses.get(loop_bodies) == set()


def test_verification_and_checks_share_one_memo(runs: Counter[str]) -> None:
    artifact = bare_artifact(_program())
    runs.clear()
    analyses = Analyses(artifact.program)
    verify(artifact, analyses=analyses)
    checked = insert_checks(artifact.program, analyses=analyses)
    assert checked is not artifact.program, "it has an open bound"
    assert runs == {"main": 1, "inner": 1, "checks": 1}


def test_a_pass_that_changes_nothing_keeps_the_memo(runs: Counter[str]) -> None:
    program = _program()
    runs.clear()
    assert run_pipeline(program, "strip-debug,strip-debug") is program
    assert runs == {"main": 1, "inner": 1, "checks": 1}


@pytest.mark.parametrize("name", sorted(PASSES.keys() - {"insert-finite-checks", "move-device"}))
def test_what_a_pass_has_done_it_does_not_do_again(name: str) -> None:
    """Checks that a second run returns an equal program, and the same object for passes that only add or
    remove."""
    step = PASSES[name]()
    once = step.run(_program())
    again = step.run(once, Analyses(once))
    assert again == once
    if name.startswith(("strip", "insert-checks")):
        assert again is once


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.with_functions(p.functions),
        lambda p: p.with_functions(f.with_body(f.body) for f in p.functions),
        lambda p: p.with_functions(f.with_body(op for op in f.body) for f in p.functions),
        StripDebug().run,
    ],
)
def test_unchanged_parts_are_the_same_objects(change: Callable[[ir.Program], ir.Program]) -> None:
    program = _program()
    assert change(program) is program


def test_changed_parts_are_new() -> None:
    program = _program()
    main, inner = program.functions
    shorter = program.with_functions((main, inner.with_body(inner.body[1:])))
    assert shorter.functions[0] is main
    assert shorter.functions[1].body == inner.body[1:]

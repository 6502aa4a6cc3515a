"""Libraries of small programs compute the right results, through our loader and through torch's own runner:
all built at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from packages.py_wrapper.tests.py_case import MM, Case
from torch import Tensor

import cpp_wrapper
from cpp_wrapper.library.batch import build_libraries
from tests.cpp.cpp_case import FAST, artifact_of, artifact_of_text, stock_run
from tests.cpp.cpp_programs import CASES

GOLDEN = Path(__file__).parent / "golden"
SHOWN = ("mlp", "storages", "results", "symbols", "constants", "slots_reused_and_lent", "while_2_stacked")
CASE_BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The libraries of all cases."""
    folder = tmp_path_factory.mktemp("libraries")
    paths = {case.name: folder / f"{case.name}.so" for case in CASES}
    build_libraries([(cpp_wrapper.emit(artifact_of(case)), paths[case.name]) for case in CASES], FAST)
    return paths


@pytest.mark.parametrize("name", SHOWN)
def test_golden(name: str, update_golden: bool) -> None:
    text = str(cpp_wrapper.emit(artifact_of(CASE_BY_NAME[name])))
    path = GOLDEN / f"{name}.cpp"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_libraries_compute_what_they_must(case: Case, libraries: Mapping[str, Path]) -> None:
    library = libraries[case.name]
    want = case.expected(*[x.clone() if isinstance(x, Tensor) else x for x in case.inputs()])
    program = cpp_wrapper.load(library)
    inputs = case.inputs()
    found = program(*inputs)
    assert len(found) == len(want)
    for mine, theirs in zip(found, want):
        if isinstance(theirs, Tensor):
            torch.testing.assert_close(mine, theirs)
        else:
            assert type(mine) is type(theirs)
            assert mine == theirs
    if case.after is not None:
        count = case.after.__code__.co_argcount
        for mine, theirs in zip(inputs, case.after(*inputs[:count])):
            torch.testing.assert_close(mine, theirs)
    for mine, theirs in zip(stock_run(library, case.inputs()), want):
        if theirs is None:
            assert mine is None
        else:
            number = not isinstance(theirs, Tensor)
            torch.testing.assert_close(mine, torch.tensor(theirs, dtype=mine.dtype) if number else theirs)


def test_state_lasts_from_call_to_call_and_is_each_callables_own(libraries: Mapping[str, Path]) -> None:
    case = CASE_BY_NAME["mutation"]
    one, other = cpp_wrapper.load(libraries["mutation"]), cpp_wrapper.load(libraries["mutation"])
    counts = [float(program(*case.inputs())[1][0]) for program in (one, one, other)]
    assert counts == [1, 2, 1]


def test_results_of_constants_outlive_the_library(libraries: Mapping[str, Path]) -> None:
    case = CASE_BY_NAME["constants"]
    program = cpp_wrapper.load(libraries["constants"])
    _, view, _, constant, _ = program(*case.inputs())
    del program
    constant.add_(1)
    assert view.eq(2).all()  # they share memory, as in eager mode


def test_functions_have_a_bounded_length(tmp_path: Path) -> None:
    lines = [f"  call aten::mm.out(%x, %x, out=%b{n % 2})" for n in range(1000)]
    text = "\n".join(
        [MM, "func @main(%x: f32[4, 4]) {", *(f"  %b{n} = alloc f32[4, 4]" for n in (0, 1)), *lines]
    )
    artifact = artifact_of_text(text + "\n  return %b0, %b1\n}\n")
    emitted = str(cpp_wrapper.emit(artifact))
    bodies = emitted.split("  void part_")[1:]
    assert len(bodies) > 4
    assert max(body.count("\n") for body in bodies[:-1]) < 220
    program = cpp_wrapper.load(cpp_wrapper.build(artifact, tmp_path / "m.so", FAST))
    x = torch.randn(4, 4)
    torch.testing.assert_close(program(x), (x @ x, x @ x))

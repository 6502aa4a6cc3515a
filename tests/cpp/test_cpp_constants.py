"""Constants of a loaded library: updated by any of their names, swapped and freed while other threads call
it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import cpp_wrapper
from cpp_wrapper import ConstantError
from cpp_wrapper.library.python import LoadedProgram
from inductor_frontend import capture
from tests.cpp.cpp_case import FAST, resident


class Head(torch.nn.Module):
    """Two names for one weight, and a buffer."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4, bias=False)
        self.outer = torch.nn.Linear(4, 4, bias=False)
        self.outer.weight = self.inner.weight
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        """Both layers."""
        y: Tensor = self.outer(self.inner(x))
        return y + self.shift


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = torch.export.Dim("rows", min=2, max=64)
    artifact = capture(Head().eval(), (torch.randn(3, 4),), dynamic_shapes=({0: rows},))
    return cpp_wrapper.build(artifact, tmp_path_factory.mktemp("constants") / "m.pt2", FAST)


@pytest.fixture
def program(path: Path) -> LoadedProgram:
    return cpp_wrapper.load(path)


X = torch.randn(5, 4)
EYE = torch.eye(4)


@pytest.mark.parametrize("name", ["inner.weight", "outer.weight"])
@pytest.mark.parametrize("is_borrowed", [False, True])
def test_any_name_updates_all_that_are_tied(program: LoadedProgram, name: str, is_borrowed: bool) -> None:
    value, shift = 3 * EYE, torch.ones(4)
    before = program(X)
    program.update_constants({name: value}, is_borrowed=is_borrowed)
    torch.testing.assert_close(program(X), 9 * X)
    program.update_constants({"shift": shift})
    torch.testing.assert_close(program(X), 9 * X + 1)
    value.zero_()
    assert bool(program(X).eq(1).all()) == is_borrowed
    torch.testing.assert_close(before, before.clone())


def test_borrowed_memory_lives_through_later_updates(program: LoadedProgram) -> None:
    value = 3 * EYE
    program.update_constants({"inner.weight": value}, is_borrowed=True)
    program.update_constants({"shift": torch.ones(4)})
    del value
    others = [torch.full((4, 4), 7.0) for _ in range(100)]  # in the memory of a tensor that is freed
    torch.testing.assert_close(program(X), 9 * X + 1)
    del others


def test_other_instances_keep_their_constants(path: Path) -> None:
    one, other = cpp_wrapper.load(path), cpp_wrapper.load(path)
    want = other(X)
    one.update_constants({"inner.weight": EYE})
    torch.testing.assert_close(one(X), X)
    assert torch.equal(other(X), want)


def test_inactive_constants_are_swapped_in_and_back(program: LoadedProgram) -> None:
    first = program(X)
    with pytest.raises(ConstantError, match="CPP531"):
        program.swap_constants()
    program.update_constants({"inner.weight": EYE}, is_inactive=True)
    assert torch.equal(program(X), first)
    program.swap_constants()
    torch.testing.assert_close(program(X), X)
    program.swap_constants()
    assert torch.equal(program(X), first)
    program.free_inactive_constants()
    with pytest.raises(ConstantError, match="CPP531"):
        program.swap_constants()


WRONG = (
    ({"inner.bias": EYE}, False, "no constants inner.bias"),
    ({"inner.weight": EYE.double()}, False, r"expected f32\[4, 4\] on cpu, got f64\[4, 4\]"),
    ({"inner.weight": EYE[:3]}, False, r"got f32\[3, 4\]"),
    ({"shift": torch.zeros(4, device="meta")}, False, "on another device"),
    ({"outer.weight": EYE}, True, "lacks shift"),
)


@pytest.mark.parametrize(("values", "is_full", "words"), WRONG)
def test_wrong_values_change_nothing(
    program: LoadedProgram, values: dict[str, Tensor], is_full: bool, words: str
) -> None:
    before = program(X)
    with pytest.raises(ConstantError, match=rf"\[CPP530\].*{words}"):
        program.update_constants(values, is_full=is_full)
    assert torch.equal(program(X), before)
    program.update_constants({"outer.weight": EYE, "shift": torch.zeros(4)}, is_full=True)
    torch.testing.assert_close(program(X), X)


def test_torchs_loader_updates_swaps_and_extracts(path: Path) -> None:
    model = torch._inductor.aoti_load_package(str(path))
    assert set(model.get_constant_fqns()) == {"inner.weight", "outer.weight", "shift"}
    full = {"inner.weight": 2 * EYE, "outer.weight": 2 * EYE, "shift": torch.zeros(4)}
    model.load_constants(full, check_full_update=True)
    torch.testing.assert_close(model(X), 4 * X)
    model.load_constants({"inner.weight": EYE}, check_full_update=False, user_managed=True)
    torch.testing.assert_close(model(X), X)
    with pytest.raises(RuntimeError):
        model.load_constants({"shift": torch.zeros(3)}, check_full_update=False)


def _calls(program: LoadedProgram, factors: tuple[float, ...], runs: int, wrong: list[object]) -> None:
    for number in range(runs):
        x = torch.full((2 + number % 63, 4), float(number % 7 + 1))
        y = program(x)
        if not any(torch.equal(y, factor * x) for factor in factors):
            wrong.append((number, y))


def _together(targets: Iterator[threading.Thread]) -> None:
    threads = list(targets)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _hammer(program: LoadedProgram, threads: int, runs: int) -> None:
    """Each run sees one state of the constants, while another thread updates and swaps them."""
    program.update_constants({"inner.weight": EYE, "shift": torch.zeros(4)}, is_full=False)
    wrong: list[object] = []
    done = threading.Event()

    def change() -> None:
        factor = 1
        while not done.is_set():
            factor = 3 - factor
            values = {"inner.weight": factor * EYE, "shift": torch.zeros(4)}
            program.update_constants(values, is_inactive=factor == 1)
            if factor == 1:
                program.swap_constants()

    changer = threading.Thread(target=change)
    changer.start()
    _together(
        threading.Thread(target=_calls, args=(program, (1.0, 4.0), runs, wrong)) for _ in range(threads)
    )
    done.set()
    changer.join()
    assert not wrong


def test_calls_see_one_state_while_others_change_it(program: LoadedProgram) -> None:
    _hammer(program, 4, 60)


@pytest.mark.conformance
def test_many_threads_are_exact_in_flat_memory(program: LoadedProgram) -> None:
    program.update_constants({"inner.weight": EYE, "shift": torch.zeros(4)})
    wrong: list[object] = []

    def round_(runs: int) -> int:
        _together(threading.Thread(target=_calls, args=(program, (1.0,), runs, wrong)) for _ in range(16))
        return resident()

    first = round_(200)
    assert round_(2000) - first < 8 << 20
    assert not wrong
    _hammer(program, 16, 500)

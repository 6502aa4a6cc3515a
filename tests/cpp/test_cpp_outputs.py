"""Outputs in tensors of the caller: any strides, each refusal by name, and no writes after a refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cpp_wrapper
from cpp_wrapper import OutputError
from cpp_wrapper.library.python import LoadedProgram
from inductor_frontend import capture
from tests.cpp.cpp_case import FAST


class Pair(torch.nn.Module):
    """Two results, a number between them, and the argument itself."""

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor | int | None]:
        """[rows, 4] and [4]."""
        return {"sum": x + y, "three": 3, "rows": x.mm(y[:, None]), "none": None, "y": y}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> LoadedProgram:
    rows = torch.export.Dim("rows", min=2, max=64)
    artifact = capture(Pair(), (torch.randn(3, 4), torch.randn(4)), dynamic_shapes=({0: rows}, None))
    return cpp_wrapper.load(cpp_wrapper.build(artifact, tmp_path_factory.mktemp("outputs") / "m.pt2", FAST))


X, Y = torch.randn(5, 4), torch.randn(4)


def _targets() -> list[Tensor]:
    return [torch.zeros(5, 4), torch.zeros(5, 1), torch.zeros(4)]


def _assert_right(targets: list[Tensor]) -> None:
    for target, want in zip(targets, (X + Y, X.mm(Y[:, None]), Y), strict=True):
        assert torch.equal(target, want)


@pytest.mark.parametrize(
    "first",
    [
        lambda: torch.zeros(5, 4),
        lambda: torch.zeros(4, 5).t(),
        lambda: torch.zeros(7, 9)[1:6, 2::2],
        lambda: torch.nn.Parameter(torch.zeros(5, 4)),
    ],
)
def test_outputs_go_to_tensors_of_any_strides(program: LoadedProgram, first: Callable[[], Tensor]) -> None:
    targets = [first(), *_targets()[1:]]
    addresses = [target.data_ptr() for target in targets]
    program.run_into(targets, X, Y)
    _assert_right(targets)
    assert [target.data_ptr() for target in targets] == addresses


def _other(number: int, make: Callable[[], Tensor]) -> Callable[[], list[Tensor]]:
    return lambda: [make() if n == number else target for n, target in enumerate(_targets())]


def _halves() -> list[Tensor]:
    memory = torch.zeros(6, 4)
    return [memory[:5], memory.flatten()[16:21, None], torch.zeros(4)]


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (lambda: _targets()[:2], "expected tensors for 3 outputs, got 2"),
        (
            _other(0, lambda: torch.zeros(5, 4, dtype=torch.float64)),
            r"output 0: expected f32\[5, 4\] on cpu, got f64\[5, 4\]",
        ),
        (_other(1, lambda: torch.zeros(4, 1)), r"output 1: expected f32\[5, 1\] on cpu, got f32\[4, 1\]"),
        (_other(1, lambda: torch.zeros(5)), r"output 1: expected f32\[5, 1\] on cpu, got f32\[5\]"),
        (_other(2, lambda: torch.zeros(4).to_sparse()), "output 2: .* not strided"),
        (
            _other(2, lambda: torch.zeros(4, device="meta")),
            "output 2: expected .* on cpu, got .* on another device",
        ),
        (_other(0, lambda: torch.zeros(4).expand(5, 4)), "output 0: elements of .* share memory"),
        (
            _other(0, lambda: torch.zeros(12).as_strided((5, 4), (2, 1))),
            "output 0: elements of .* share memory",
        ),
        (_other(2, lambda: Y), "output 2 overlaps input 1"),
        (_other(0, lambda: X), "output 0 overlaps input 0"),
        (_halves, "output 1 overlaps output 0"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    program: LoadedProgram, targets: Callable[[], list[Tensor]], words: str
) -> None:
    given = targets()
    before = [None if one.is_sparse or one.is_meta else one.clone() for one in given]
    with pytest.raises(OutputError, match=rf"\[CPP610\] {words}"):
        program.run_into(given, X, Y)
    assert all(was is None or torch.equal(one, was) for one, was in zip(given, before))
    targets_after = _targets()
    program.run_into(targets_after, X, Y)
    _assert_right(targets_after)


def test_only_plain_tensors_are_written_to(program: LoadedProgram) -> None:
    wrong = [*_targets()[:2], "y"]
    with pytest.raises(OutputError, match="output 2: expected a plain tensor, got str"):
        program.run_into(wrong, X, Y)  # type: ignore[arg-type]  # what is tested


def test_wrong_arguments_are_errors_of_the_call(program: LoadedProgram) -> None:
    with pytest.raises(AssertionError, match="WIR921"):
        program.run_into(_targets(), X[:, :3], Y)

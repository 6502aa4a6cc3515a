"""Operators that allocate their results: their launches are repeated for new results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda, clauses, load
from packages.triton_runtime.tests.tr_library import Library
from torch import Tensor

from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir.plugins.repeating import Repeatable, RepeatedOperator


@pytest.fixture
def library(fake: FakeCuda) -> Iterator[Library]:
    fake.library.fake_enter(0)
    yield Library(fake)
    fake.library.fake_leave()


WIDE = (
    "read f32* x, write f32* out, i32 n, i64 word",
    clauses(["x", "out", "n", "word", "B"], "ceildiv(n, B)", "B = 64"),
)


@dataclass
class Maker:
    """An operator with two results in one storage, computed by the driver and a kernel with scratch memory."""

    library: Library
    calls: int = 0
    scratch: list[Tensor] = field(default_factory=lambda: [torch.zeros(64) for _ in range(3)])
    """Scratch memory for the calls in turn; always the first one unless `moves`."""
    moves: bool = False
    number: Callable[[int, Tensor], int] = field(default=lambda call, result: 0)
    """An additional argument of the kernel, by the number of the call and its result."""
    kernel: LoadedKernel = field(init=False)
    operator: RepeatedOperator = field(init=False)
    kept: tuple[tuple[int, int], ...] = ()
    others: tuple[tuple[int, int], ...] = ((0, 1 << 62),)

    def __post_init__(self) -> None:
        driver = self.library.fake.driver(stream=lambda _: self.library.current, check_args=False)
        repeater = driver.operator_repeater(ir.CPU)
        assert repeater is not None
        self.kernel = load(driver, *WIDE)
        operator = Repeatable("lib::double", self, (), (), makes_results=True)
        self.operator = repeater.repeated(operator, self.record, 16)

    def __call__(self, a: Tensor, flags: list[bool], bias: Tensor | None) -> tuple[Tensor, Tensor]:
        assert bias is None
        self.calls += 1
        scratch = self.scratch[self.calls % 3 if self.moves else 0]
        storage = torch.full((2 * a.numel(),), 9.0)
        first, second = storage[: a.numel()], storage[a.numel() :]
        self.library.fill(first.data_ptr(), 0, a.numel(), self.library.current)
        self.library.copy_bytes(a, second)
        self.kernel(scratch, second, a.numel(), self.number(self.calls, second))
        return first, second

    def record(self, *args: Any) -> tuple[object | None, object]:  # Any: the operator's own
        results = self(*args)
        records: list[tuple[object, tuple[Tensor, Tensor]]] = []
        self.library.current, before = self.library.side, self.library.current
        for _ in range(2):
            self.operator.begin(self.library.side)
            outputs = self(*args)
            recording = self.operator.end(self.library.side)
            assert recording is not None
            records.append((recording, outputs))
        self.library.current = before
        begins = [outputs[0].data_ptr() for _, outputs in records]
        assert begins[0] != begins[1]
        storages = ((begins[0], 8 * args[0].numel(), begins[1]),)
        recording = self.operator.movable(
            records[0][0],
            records[1][0],
            storages,
            self.kept,
            self.others,
            lambda: self.new_results(args[0].numel()),
        )
        return recording, results

    def new_results(self, size: int) -> tuple[Any, ...]:
        storage = torch.full((2 * size,), 7.0)
        return (storage[:size], storage[size:]), storage


@pytest.fixture
def maker(library: Library) -> Maker:
    return Maker(library)


def test_results_that_lie_elsewhere(maker: Maker) -> None:
    a = torch.randn(100)
    results = []
    for round_ in range(5):
        maker.library.fake.launches()
        first, second = maker.operator(a, [True, False], None)
        [launch] = maker.library.fake.launches()[-1:]
        assert launch.params[:3] == (maker.scratch[0].data_ptr(), second.data_ptr(), 100)
        assert launch.stream == maker.library.current
        assert not first.any()
        assert torch.equal(second, a)
        results.append((first, second))
        assert maker.calls == (1 if round_ == 0 else 4)
    assert len({first.data_ptr() for first, _ in results}) == 5
    assert all(torch.equal(second, a) for _, second in results)


def test_what_a_call_that_makes_results_depends_on(maker: Maker) -> None:
    a = torch.randn(100)
    for _ in range(3):
        maker.operator(a, [True, False], None)
    assert maker.calls == 4
    maker.operator(a, [True, True], None)
    maker.operator(a, [True, False, False], None)
    maker.operator(a.clone(), [True, False], None)
    assert maker.calls == 7
    maker.operator(a, [True, False], None)
    assert maker.calls == 7


ACCEPTED, REFUSED = 4, 6
"""Calls of the operator in four calls of its repeating wrapper."""


@pytest.mark.parametrize(
    ("moves", "retained", "others", "calls"),
    [(True, False, True, REFUSED), (True, True, True, ACCEPTED), (False, False, True, ACCEPTED)],
    ids=["scratch elsewhere", "scratch that is kept", "scratch that stays"],
)
def test_scratch_memory(maker: Maker, moves: bool, retained: bool, others: bool, calls: int) -> None:
    a = torch.randn(100)
    maker.moves = moves
    if retained:
        maker.kept = tuple((s.data_ptr(), 256) for s in maker.scratch)
    for _ in range(4):
        maker.operator(a, [], None)
    assert maker.calls == calls
    if retained:
        maker.library.fake.launches()
        maker.operator(a, [], None)
        [launch] = maker.library.fake.launches()
        assert launch.params[0] == maker.scratch[1].data_ptr(), "that of the second recording"


@pytest.mark.parametrize("kind", ["unset", "distance", "negative distance", "end", "begin in one"])
def test_words_that_differ(maker: Maker, kind: str) -> None:
    """Uninitialized words may differ between two recordings.

    Words that depend on the addresses of results may not, unless they are such an address.
    """
    a = torch.randn(100)
    maker.others = ()
    numbers: dict[str, Callable[[int, Tensor], int]] = {
        "unset": lambda call, result: 1000 * call,
        "distance": lambda call, result: result.data_ptr() - a.data_ptr(),
        "negative distance": lambda call, result: a.data_ptr() - result.data_ptr(),
        "end": lambda call, result: result.data_ptr() + 400,
        "begin in one": lambda call, result: result.data_ptr() if call == 3 else call,
    }
    maker.number = numbers[kind]
    for _ in range(4):
        maker.operator(a, [], None)
    assert maker.calls == (ACCEPTED if kind == "unset" else REFUSED)


def test_results_that_cannot_be_made(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    a = torch.randn(100)
    for _ in range(3):
        maker.operator(a, [], None)
    for results in (None, ((), 3), ((),), ((), a, a)):
        monkeypatch.setattr(maker, "new_results", lambda size, results=results: results)
        with pytest.raises(SystemError, match="differ from those of its recording"):
            maker.operator(a, [], None)

    def fails(size: int) -> tuple[Any, ...]:
        raise torch.OutOfMemoryError(f"{size} elements")

    monkeypatch.setattr(maker, "new_results", fails)
    with pytest.raises(torch.OutOfMemoryError, match="100 elements"):
        maker.operator(a, [], None)


def test_memory_in_many_pieces(maker: Maker) -> None:
    maker.kept = ((0, 8),) * 257
    a = torch.randn(4)
    maker.operator(a, [], None)
    with pytest.raises(ValueError, match="more than 256"):
        maker.operator(a, [], None)

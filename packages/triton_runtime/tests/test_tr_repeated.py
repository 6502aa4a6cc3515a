"""Operators whose launches are repeated: seen once on a recorded stream, then launched without the operator."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import VECTOR, FakeCuda, clauses, load
from torch import Tensor

from triton_runtime.errors import DriverError, LaunchError
from wrapper_ir.protocols import LoadedKernel
from wrapper_ir.repeating import Repeatable, RepeatedOperator
from wrapper_ir.types import CPU


@dataclass
class Library:
    """An operator that copies a vector: it fills its result by the driver, then launches kernels."""

    fake: FakeCuda
    current: int = 7
    """The stream that callers run on."""
    setting: bool | None = True
    """Of the library's precision; None where it cannot tell."""
    watchers: int | None = 0
    calls: int = 0
    recorded: int = 0
    queue: Callable[[Library, Tensor, Tensor], None] = field(default=lambda self, a, out: self.copy(a, out))
    kernel: LoadedKernel = field(init=False)
    operator: RepeatedOperator = field(init=False)
    side: int = field(init=False)

    def __post_init__(self) -> None:
        driver = self.fake.driver(stream=lambda _: self.current, check_args=False)
        self.kernel = load(driver, *VECTOR)
        repeater = driver.operator_repeater(CPU)
        assert repeater is not None
        self.side = repeater.new_stream()
        settings, watchers = (lambda: (True, False), self.precision), (lambda: 0, lambda: self.watchers)
        self.operator = repeater.repeated(self.described(settings, watchers), self.record, 16)

    def described(self, settings: tuple[Any, ...], watchers: tuple[Any, ...]) -> Repeatable:  # Any: functions
        return Repeatable("lib::copy", self, settings, watchers)

    def __call__(self, a: Tensor, *, out: Tensor, scale: float = 1) -> Tensor:
        self.calls += 1
        self.queue(self, a, out)
        return out

    def copy(self, a: Tensor, out: Tensor) -> None:
        self.fill(out.data_ptr(), 0, out.numel(), self.current)
        self.kernel(a, out, out.numel())

    def copy_bytes(self, a: Tensor, out: Tensor) -> None:
        """By the driver, without a kernel."""
        types = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint64)
        args = (out.data_ptr(), a.data_ptr(), 4 * out.numel(), self.current)
        assert self.fake.library.cuMemcpyDtoDAsync_v2(*(kind(arg) for kind, arg in zip(types, args))) == 0

    def precision(self) -> bool:
        if self.setting is None:
            raise RuntimeError("two settings contradict each other")
        return self.setting

    def fill(self, *args: int) -> None:
        types = (ctypes.c_uint64, ctypes.c_uint, ctypes.c_size_t, ctypes.c_uint64)
        call = self.fake.library.cuMemsetD32Async
        assert call(*(kind(arg) for kind, arg in zip(types, args))) == 0

    def record(self, *args: Any, **kwargs: Any) -> object | None:  # Any: the operator's own
        self.recorded += 1
        self.operator.begin(self.side)
        self.current, before = self.side, self.current
        try:
            self(*args, **kwargs)
        finally:
            self.current = before
            found = self.operator.end(self.side)
        return found

    def ran(self, call: Callable[[], object]) -> str:
        """Whether the operator itself was called, and how often it was recorded."""
        calls, recorded = self.calls, self.recorded
        call()
        return f"called {self.calls - calls}, recorded {self.recorded - recorded}, launched {len(self.fake.launches())}"


@pytest.fixture
def library(fake: FakeCuda) -> Iterator[Library]:
    fake.library.fake_enter(0)
    yield Library(fake)
    fake.library.fake_leave()


PLAIN = "called 1, recorded 0, launched 1"
SEEN = "called 1, recorded 1, launched 1"
REPEATED = "called 0, recorded 0, launched 1"


def test_the_second_call_is_seen_and_later_ones_are_repeated(library: Library) -> None:
    a, out = torch.randn(100), torch.full((100,), 9.0)
    assert library.ran(lambda: library.operator(a, out=out)) == PLAIN
    assert library.ran(lambda: library.operator(a, out=out)) == SEEN
    library.operator(a, out=out)
    [launch] = library.fake.launches()
    assert launch.params[:3] == (a.data_ptr(), out.data_ptr(), 100)
    assert (launch.grid[0], launch.block[0], launch.stream) == (2, 128, library.current)
    out.fill_(9)
    library.fake.library.fake_forget()
    assert library.ran(lambda: library.operator(a, out=out)) == REPEATED
    assert out.sum() == 0, "the fill is repeated, too"
    assert library.operator(a, out=out) is out


def test_what_a_call_depends_on(library: Library) -> None:
    """Each of these makes another call: once by the operator, then seen, then repeated."""
    a, out = torch.randn(8, 8), torch.empty(8, 8)
    twin = a.clone()
    others: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "address": (lambda: library.operator(twin, out=out), lambda: None),
        "strides": (lambda: library.operator(a.t(), out=out), lambda: None),
        "sizes": (lambda: library.operator(a.view(64), out=out), lambda: None),
        "dtype": (lambda: library.operator(a.view(torch.int32), out=out), lambda: None),
        "number": (lambda: library.operator(a, scale=2.0, out=out), lambda: None),
        "kind of number": (lambda: library.operator(a, scale=2, out=out), lambda: None),
        "stream": (lambda: library.operator(a, out=out), lambda: setattr(library, "current", 8)),
        "setting": (lambda: library.operator(a, out=out), lambda: setattr(library, "setting", False)),
    }
    for _ in range(3):
        library.operator(a, out=out)
    library.fake.launches()
    assert library.ran(lambda: library.operator(a, out=out)) == REPEATED
    for what, (call, change) in others.items():
        change()
        assert [library.ran(call) for _ in range(3)] == [PLAIN, SEEN, REPEATED], what
    library.current, library.setting = 7, True
    assert library.ran(lambda: library.operator(a, out=out)) == REPEATED


def test_what_only_the_library_understands(library: Library) -> None:
    class Own(Tensor):
        pass

    a, out = torch.randn(64), torch.empty(64)
    for x in (Own(64), torch.randn(64, dtype=torch.complex64), torch.empty(0)):
        assert [library.ran(partial(library.operator, x, out=out)) for _ in range(3)] == [PLAIN] * 3
    with pytest.raises(TypeError, match="scales"):
        library.operator(a, scales=[1], out=out)
    library.fake.library.fake_capture(1)
    assert [library.ran(lambda: library.operator(a, out=out)) for _ in range(3)] == [PLAIN] * 3
    library.fake.library.fake_capture(0)
    for library.watchers in (1, 2):
        assert [library.ran(lambda: library.operator(a, out=out)) for _ in range(3)] == [PLAIN] * 3
    library.watchers, library.setting = 0, None
    assert [library.ran(lambda: library.operator(a, out=out)) for _ in range(3)] == [PLAIN] * 3


@pytest.mark.parametrize("kind", ["host", "fork", "nothing", "driver", "refused"])
def test_what_cannot_be_repeated(library: Library, kind: str) -> None:
    a, out = torch.randn(100), torch.empty(100)

    def queue(self: Library, a: Tensor, out: Tensor) -> None:
        assert self is library
        if kind != "nothing":
            self.copy(a, out)
        if kind == "host":
            self.copy_bytes(a, out)

    library.queue = queue
    library.fake.library.fake_fork(kind == "fork")
    library.fake.library.fake_host_copies(kind == "host")
    if kind in ("driver", "refused"):
        library.operator(a, out=out)
        library.fake.fail("cuGraphNodeGetType" if kind == "driver" else "cuStreamEndCapture", 1)
    for _ in range(4):
        library.operator(a, out=out)
    assert library.recorded == 1
    assert library.calls == 5 + (kind in ("driver", "refused")), "the operator did them all"
    library.fake.library.fake_fork(0)
    library.fake.library.fake_host_copies(0)


def test_copies_are_repeated(library: Library) -> None:
    a, out = torch.randn(100), torch.empty(100)
    library.queue = Library.copy_bytes
    for _ in range(3):
        out.zero_()
        library.operator(a, out=out)
        assert torch.equal(a, out)
    assert library.calls == 2


def test_a_launch_that_fails(library: Library) -> None:
    a, out = torch.randn(100), torch.empty(100)
    for _ in range(3):
        library.operator(a, out=out)
    for status, hint in ((700, "CUDA_LAUNCH_BLOCKING"), (1, "could not launch")):
        library.fake.fail("cuLaunchKernelEx", status)
        with pytest.raises(LaunchError, match=r"TR308.*'lib::copy'") as caught:
            library.operator(a, out=out)
        assert hint in str(caught.value)
    library.fake.fail("cuLaunchKernelEx", 2)
    with pytest.raises(torch.OutOfMemoryError, match="TR308"):
        library.operator(a, out=out)
    library.fake.launches()
    assert library.ran(lambda: library.operator(a, out=out)) == REPEATED


def test_many_layouts_leave_what_is_used(library: Library) -> None:
    """What is known is bounded: new calls take the place of what was used least lately, or are the operator's."""
    a, out = torch.randn(4096), torch.empty(4096)

    def kept() -> None:
        library.operator(a, out=out)

    for _ in range(3):
        kept()
    for size in range(1, 600):
        library.operator(a[:size], out=out[:size])
        kept()
    assert library.recorded < 4
    library.fake.launches()
    assert library.ran(kept) == REPEATED


def test_an_operator_that_raises(library: Library) -> None:
    a, out = torch.randn(64), torch.empty(64)

    def queue(self: Library, a: Tensor, out: Tensor) -> None:
        raise RuntimeError("said the library")

    library.queue = queue
    for _ in range(3):
        with pytest.raises(RuntimeError, match="said the library"):
            library.operator(a, out=out)
    library.queue = Library.copy
    assert library.ran(lambda: library.operator(a, out=out)) == SEEN


def test_threads(library: Library) -> None:
    """A thread without a context of its own launches in the device's."""
    a, out = torch.randn(64), torch.empty(64)
    for _ in range(3):
        library.operator(a, out=out)
    library.fake.launches()
    threads = [
        threading.Thread(target=lambda: [library.operator(a, out=out) for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(library.fake.launches()) == 200
    assert library.calls == 2


def test_the_order_and_attributes_of_kernels_stay(fake: FakeCuda) -> None:
    fake.library.fake_enter(0)
    library = Library(fake)
    driver = fake.driver(stream=lambda _: library.current)
    wide = load(driver, *VECTOR, cluster=(2, 1, 1), dependent_launch=True)

    def queue(self: Library, a: Tensor, out: Tensor) -> None:
        self.kernel(a, out, 64)
        wide(out, a, 64)
        self.kernel(a, out, 1)

    library.queue = queue
    a, out = torch.randn(64), torch.empty(64)
    library.operator(a, out=out)
    expected = [(x.grid, x.block, x.shared, x.params, x.attributes) for x in fake.launches()]
    assert [bool(x[-1]) for x in expected] == [False, True, False]
    for _ in range(2):
        library.operator(a, out=out)
        assert [(x.grid, x.block, x.shared, x.params, x.attributes) for x in fake.launches()] == expected
    fake.library.fake_leave()


def test_no_driver(fake: FakeCuda, tmp_path: Any) -> None:  # Any: pytest gives a Path
    driver = fake.driver()
    assert driver.operator_repeater(CPU) is not None
    driver.options = type(driver.options)(library=str(tmp_path / "none.so"))
    driver._session = None
    assert driver.operator_repeater(CPU) is None
    with pytest.raises(DriverError, match="TR504"):
        driver.hooks  # noqa: B018


WIDE = (
    "read f32* x, write f32* out, i32 n, i64 word",
    clauses(["x", "out", "n", "word", "B"], "ceildiv(n, B)", "B = 64"),
)


@dataclass
class Maker:
    """An operator that makes two results in one storage, by the driver and a kernel, with scratch memory."""

    library: Library
    calls: int = 0
    scratch: list[Tensor] = field(default_factory=lambda: [torch.zeros(64) for _ in range(3)])
    """What the operator's calls use in turn: the first one always, where `moves` is false."""
    moves: bool = False
    number: Callable[[int, Tensor], int] = field(default=lambda call, result: 0)
    """What the kernel is given besides, by the number of the call and its result."""
    kernel: LoadedKernel = field(init=False)
    operator: RepeatedOperator = field(init=False)
    kept: tuple[tuple[int, int], ...] = ()
    others: tuple[tuple[int, int], ...] = ((0, 1 << 62),)

    def __post_init__(self) -> None:
        driver = self.library.fake.driver(stream=lambda _: self.library.current, check_args=False)
        repeater = driver.operator_repeater(CPU)
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
        seen: list[tuple[object, tuple[Tensor, Tensor]]] = []
        self.library.current, before = self.library.side, self.library.current
        for _ in range(2):
            self.operator.begin(self.library.side)
            made = self(*args)
            found = self.operator.end(self.library.side)
            assert found is not None
            seen.append((found, made))
        self.library.current = before
        begins = [made[0].data_ptr() for _, made in seen]
        assert begins[0] != begins[1]
        storages = ((begins[0], 8 * args[0].numel(), begins[1]),)
        found = self.operator.movable(
            seen[0][0], seen[1][0], storages, self.kept, self.others, lambda: self.made(args[0].numel())
        )
        return found, results

    def made(self, size: int) -> tuple[Any, ...]:
        storage = torch.full((2 * size,), 7.0)
        return (storage[:size], storage[size:]), storage


@pytest.fixture
def maker(library: Library) -> Maker:
    return Maker(library)


def test_results_that_lie_elsewhere(maker: Maker) -> None:
    a = torch.randn(100)
    held = []
    for round_ in range(5):
        maker.library.fake.launches()
        first, second = maker.operator(a, [True, False], None)
        [launch] = maker.library.fake.launches()[-1:]
        assert launch.params[:3] == (maker.scratch[0].data_ptr(), second.data_ptr(), 100)
        assert launch.stream == maker.library.current
        assert not first.any()
        assert torch.equal(second, a)
        held.append((first, second))
        assert maker.calls == (1 if round_ == 0 else 4)
    assert len({first.data_ptr() for first, _ in held}) == 5
    assert all(torch.equal(second, a) for _, second in held)


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
"""Calls of the operator in four calls of what repeats it."""


@pytest.mark.parametrize(
    ("moves", "kept", "others", "calls"),
    [(True, False, True, REFUSED), (True, True, True, ACCEPTED), (False, False, True, ACCEPTED)],
    ids=["scratch elsewhere", "scratch that is kept", "scratch that stays"],
)
def test_scratch_memory(maker: Maker, moves: bool, kept: bool, others: bool, calls: int) -> None:
    a = torch.randn(100)
    maker.moves = moves
    if kept:
        maker.kept = tuple((s.data_ptr(), 256) for s in maker.scratch)
    for _ in range(4):
        maker.operator(a, [], None)
    assert maker.calls == calls
    if kept:
        maker.library.fake.launches()
        maker.operator(a, [], None)
        [launch] = maker.library.fake.launches()
        assert launch.params[0] == maker.scratch[1].data_ptr(), "that of the second recording"


@pytest.mark.parametrize("kind", ["unset", "distance", "negative distance", "end", "begin in one"])
def test_words_that_differ(maker: Maker, kind: str) -> None:
    """What nobody has set may differ between two recordings; what depends on where results lie may not, unless it is an address in them."""
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
    for made in (None, ((), 3), ((),), ((), a, a)):
        monkeypatch.setattr(maker, "made", lambda size, made=made: made)
        with pytest.raises(SystemError, match="not what they were"):
            maker.operator(a, [], None)

    def fails(size: int) -> tuple[Any, ...]:
        raise torch.OutOfMemoryError(f"{size} elements")

    monkeypatch.setattr(maker, "made", fails)
    with pytest.raises(torch.OutOfMemoryError, match="100 elements"):
        maker.operator(a, [], None)


def test_memory_in_many_pieces(maker: Maker) -> None:
    maker.kept = ((0, 8),) * 257
    a = torch.randn(4)
    maker.operator(a, [], None)
    with pytest.raises(ValueError, match="more than 256"):
        maker.operator(a, [], None)

"""Operators whose launches are recorded once on a captured stream, and then launched without the operator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import VECTOR, FakeCuda, load
from packages.triton_runtime.tests.tr_library import Library
from torch import Tensor

from triton_runtime.errors import DriverError, LaunchError
from wrapper_ir import ir


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
    """Each of these is a new call: executed once by the operator, then recorded, then repeated."""
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
    """The cache is bounded: new calls replace the least recently used ones, or remain the operator's."""
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
    """A thread without a context launches in the device's."""
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
    assert driver.operator_repeater(ir.CPU) is not None
    driver.options = type(driver.options)(library=str(tmp_path / "none.so"))
    driver._session = None
    assert driver.operator_repeater(ir.CPU) is None
    with pytest.raises(DriverError, match="TR504"):
        driver.hooks  # noqa: B018

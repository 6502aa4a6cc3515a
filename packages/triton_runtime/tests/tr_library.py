"""A library operator whose launches a fake driver records."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from packages.triton_runtime.tests.tr_fake_cuda import VECTOR, FakeCuda, load
from torch import Tensor

from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir.plugins.repeating import Repeatable, RepeatedOperator


@dataclass
class Library:
    """An operator that copies a vector: it fills its result through the driver, then launches kernels."""

    fake: FakeCuda
    current: int = 7
    """The stream of callers."""
    setting: bool | None = True
    """The library's precision setting; None if it cannot be read."""
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
        repeater = driver.operator_repeater(ir.CPU)
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
        """Copies through the driver, without a kernel."""
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
            recording = self.operator.end(self.side)
        return recording

    def ran(self, call: Callable[[], object]) -> str:
        """Reports calls of the operator and the number of its recordings."""
        calls, recorded = self.calls, self.recorded
        call()
        return (
            f"called {self.calls - calls}, recorded {self.recorded - recorded}, launched "
            f"{len(self.fake.launches())}"
        )

"""Timers of a device's work with cold caches, by device type."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from triton_runtime.tune.measure import Timer
from wrapper_ir import ir

if TYPE_CHECKING:
    from torch import Event, Tensor

_MIN_FLUSH = 1 << 20
_FLUSHES = 2
"""Caches replace lines in no strict order: content may survive a write of the cache's size, but hardly twice
that.
"""
_IDLE = 0.05
"""Seconds after which an idle device may have lowered its clock."""
_WAKE = 0.2
"""Seconds of work that raise it again: little compared with compilation."""


class HostTimer:
    """Times synchronous work, such as the interpreter's."""

    def __init__(self, device: ir.Device) -> None:
        self.device = device

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        """See `Timer`."""
        if before is not None:
            before()
        start = time.perf_counter()
        run()
        return time.perf_counter() - start


class _DeviceModule(Protocol):
    """Functions of torch's module for a device type, such as `torch.cuda`."""

    @property
    def Event(self) -> type[Event]: ...

    def get_device_properties(self, device: int | None) -> object: ...

    def synchronize(self, device: int | None) -> None: ...


class StreamTimer:
    """Times queued work between two events of the device.

    Before that it writes twice the bytes of the second-level cache; meanwhile the host queues the work. An
    idle device first works for a while, since its clock rises slowly.
    """

    def __init__(self, device: ir.Device) -> None:
        self.device = device
        self._last = -_IDLE

    @cached_property
    def _module(self) -> _DeviceModule:
        import torch

        module: _DeviceModule = torch.get_device_module(self.device.type)
        return module

    @cached_property
    def _cold(self) -> Tensor:
        import torch

        properties = self._module.get_device_properties(self.device.index)
        size = max(_FLUSHES * int(getattr(properties, "L2_cache_size", 0)), _MIN_FLUSH)
        return torch.empty(size, dtype=torch.uint8, device=str(self.device))

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        """See `Timer`."""
        if time.monotonic() > self._last + _IDLE:
            self._wake()
        if before is not None:
            before()
        start, end = (self._module.Event(enable_timing=True) for _ in range(2))
        self._cold.zero_()
        start.record()
        run()
        end.record()
        end.synchronize()
        milliseconds: float = start.elapsed_time(end)
        self._last = time.monotonic()
        return milliseconds * 1e-3

    def _wake(self) -> None:
        end = time.monotonic() + _WAKE
        while time.monotonic() < end:
            self._cold.zero_()
            self._module.synchronize(self.device.index)


TIMERS: Mapping[str, Callable[[ir.Device], Timer]] = {
    "cpu": HostTimer,
    "cuda": StreamTimer,
    "xpu": StreamTimer,
}
"""Timers by device type."""


def timer_for(device: ir.Device) -> Timer:
    """The timer of a device type, or the host's."""
    return TIMERS.get(device.type, HostTimer)(device)

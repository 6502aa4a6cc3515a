"""Products of matrices on a GPU whose kernels are launched again without asking torch and cuBLAS, where a runtime can.

What a product launches is seen once, on a stream that is recorded and never run. Its kernels may use the workspace that torch gives to
that stream: it lies in a pool of ours, so that it stays where it is, and each stream that programs run on has its own, so that the
kernels that use one run in order. The workspace of a stream that programs run on is given back, so that the stream has one, unless others
ask torch for products there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from wrapper_ir.analysis.plain_functions import PLAIN_FUNCTIONS
from wrapper_ir.analysis.repeatable import is_repeatable
from wrapper_ir.collection import paused_collection
from wrapper_ir.repeating import OperatorRepeater, RepeatedOperator, RepeatingRuntime
from wrapper_ir.types import Device
from wrapper_ir_torch._compat import (
    WATCHERS,
    forget_workspaces,
    has_memory_pools,
    memory_pool,
    product_settings,
    segments_of,
    stream_at,
    using_pool,
)
from wrapper_ir_torch.runtimes import triton_runtime

__all__ = ["REPEATERS", "Repeaters", "repeated_operator"]

# Any in this file: tensors, numbers, and torch's functions of them


class Repeaters:
    """What repeats operators, by device. Like memory pools it belongs to the process: programs share the workspaces."""

    def __init__(self) -> None:
        self._devices: dict[Device, _Recording | None] = {}
        self._lock = threading.Lock()

    def operator(self, name: str, device: Device, calls: int) -> Callable[..., Any]:
        """See `repeated_operator`."""
        function: Callable[..., Any] = getattr(torch, PLAIN_FUNCTIONS[name])
        with self._lock:
            if device not in self._devices:
                found = _repeater(device)
                self._devices[device] = (
                    _Recording(found, device) if found is not None and has_memory_pools() else None
                )
            recording = self._devices[device]
        return function if recording is None else recording.operator(name, function, calls)


class _Recording:
    """Sees what operators launch on one device."""

    def __init__(self, repeater: OperatorRepeater, device: Device) -> None:
        self._repeater = repeater
        self._device = torch.device(str(device))
        self._settings = product_settings()
        self._pool: Any = None
        self._segments: list[tuple[int, int]] = []
        self._streams: dict[int, int] = {}
        """Of each stream that programs run on, the one on which its operators are recorded."""
        self._lock = threading.Lock()

    def operator(self, name: str, function: Callable[..., Any], calls: int) -> Callable[..., Any]:
        """The operator for a program that calls it so often."""

        def record(*args: Any, **kwargs: Any) -> object | None:
            return self._recorded(made, lambda: function(*args, **kwargs))

        made = self._repeater.repeated(name, function, self._settings, WATCHERS, record, calls)
        return made

    def _recorded(self, operator: RepeatedOperator, call: Callable[[], object]) -> object | None:
        """What a call launches; None where torch does not let it be recorded, which a call of it then explains, or where the workspace
        would not be ours."""
        with self._lock, paused_collection():
            if self._pool is None:
                self._pool = memory_pool(self._device)
            side = self._side()
            with using_pool(self._pool, self._device), torch.cuda.stream(stream_at(side, self._device)):
                if not self._is_served():
                    return None
                operator.begin(side)
                try:
                    call()
                except RuntimeError:
                    operator.end(side)
                    return None
                found = operator.end(side)
            forget_workspaces()  # that of the stream that is in use, which nobody may ask for again
            return found

    def _is_served(self) -> bool:
        """Whether memory comes from the pool here: of the pools that a thread uses at a time, torch takes the one that was first."""
        address = torch.empty(1, dtype=torch.uint8, device=self._device).data_ptr()
        if not _is_in(self._segments, address):
            self._segments = segments_of({self._pool.id}, self._device)
        return _is_in(self._segments, address)

    def _side(self) -> int:
        current = torch.cuda.current_stream(self._device).cuda_stream
        if current not in self._streams:
            self._streams[current] = self._repeater.new_stream()
        return self._streams[current]


def _is_in(spans: Sequence[tuple[int, int]], address: int) -> bool:
    return any(begin <= address < end for begin, end in spans)


def _repeater(device: Device) -> OperatorRepeater | None:
    """The runtime of Triton kernels has one, where the device is there."""
    runtime = triton_runtime()
    return runtime.operator_repeater(device) if isinstance(runtime, RepeatingRuntime) else None


REPEATERS = Repeaters()
"""Those of this process."""


def repeated_operator(name: str, device: str, calls: int) -> Callable[..., Any]:
    """torch's function of an operator that `is_repeatable`, for a program that calls it `calls` times; where a runtime can, one that
    launches again what an equal call launched before. Raises ValueError for other operators."""
    if not is_repeatable(name):
        raise ValueError(f"{name} may do more than launch kernels")
    where = torch.device(device)
    return REPEATERS.operator(name, Device(where.type, where.index), calls)

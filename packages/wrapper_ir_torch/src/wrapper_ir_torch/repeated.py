"""Matmuls and attention on a GPU whose kernels are launched again without asking torch and its libraries, where a runtime can.

What an operator launches is seen once, on a stream that is recorded and never run. Its kernels may use the workspace that torch gives to
that stream, and scratch memory of the operator's: both lie in a pool of ours, so that they stay where they are, and each stream that
programs run on has its own, so that the kernels that use them run in order. The workspace of a stream that programs run on is given
back, so that the stream has one, unless others ask torch for matmuls there.

Results that an operator makes lie elsewhere in each call. Two recordings tell where their addresses stand in what is launched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from wrapper_ir import ir
from wrapper_ir.analysis.plain_functions import PLAIN_FUNCTIONS
from wrapper_ir.analysis.repeatable import is_repeatable, makes_results
from wrapper_ir.plugins.repeating import OperatorRepeater, Repeatable, RepeatedOperator, RepeatingRuntime
from wrapper_ir.support.collection import paused_collection
from wrapper_ir_torch._compat import (
    MAKING_WATCHERS,
    WATCHERS,
    forget_workspaces,
    has_memory_pools,
    matmul_settings,
    memory_pool,
    segments_by_pool,
    segments_of,
    stream_at,
    torch_operators,
    using_pool,
)
from wrapper_ir_torch.repeated_results import Results, described
from wrapper_ir_torch.runtimes import triton_runtime

# Any in this file: tensors, numbers, and torch's functions of them

_MOST_PIECES = 256
"""Pieces of memory that `RepeatedOperator.movable` takes."""
_TRIES = 3
"""Recordings of a call, of which two in a row have to tell where results lie."""


class Repeaters:
    """What repeats operators, by device. Like memory pools it belongs to the process: programs share the workspaces."""

    def __init__(self) -> None:
        self._devices: dict[ir.Device, _Recording | None] = {}
        self._lock = threading.Lock()

    def operator(self, name: str, device: ir.Device, calls: int) -> Callable[..., Any]:
        """See `repeated_operator`."""
        function = _function(name)
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

    def __init__(self, repeater: OperatorRepeater, device: ir.Device) -> None:
        self._repeater = repeater
        self._device = torch.device(str(device))
        self._settings = matmul_settings()
        self._pool: Any = None
        self._segments: list[tuple[int, int]] = []
        self._streams: dict[int, int] = {}
        """Of each stream that programs run on, the one on which its operators are recorded."""
        self._lock = threading.Lock()

    def operator(self, name: str, function: Callable[..., Any], calls: int) -> Callable[..., Any]:
        """The operator for a program that calls it so often."""
        watchers = (*WATCHERS, *MAKING_WATCHERS) if makes_results(name) else WATCHERS

        def written(*args: Any, **kwargs: Any) -> object | None:
            return self._recorded(made, lambda: function(*args, **kwargs), ())[0]

        def returned(*args: Any, **kwargs: Any) -> tuple[object | None, object]:
            results = function(*args, **kwargs)
            layout = described(results, self._device)
            return layout and self._movable(made, lambda: function(*args, **kwargs), layout), results

        operator = Repeatable(name, function, self._settings, watchers, makes_results(name))
        made = self._repeater.repeated(operator, returned if makes_results(name) else written, calls)
        return made

    def _recorded(
        self, operator: RepeatedOperator, call: Callable[[], Any], storages: tuple[int, ...]
    ) -> tuple[object | None, Any]:
        """What a call launches, and its results, of so many bytes; None where torch does not let it be recorded, which a call of it then
        explains, or where its memory would not be ours."""
        with self._lock, paused_collection():
            if self._pool is None:
                self._pool = memory_pool(self._device)
            side = self._side()
            with using_pool(self._pool, self._device), torch.cuda.stream(stream_at(side, self._device)):
                try:
                    between = _holes(storages, self._device) if self._is_served() else None
                except torch.OutOfMemoryError:  # the call itself has the memory that it needs
                    between = None
                if between is None:
                    return None, None
                operator.begin(side)
                try:
                    results = call()
                except RuntimeError:
                    operator.end(side)
                    return None, None
                found = operator.end(side)
                del between
            forget_workspaces()  # that of the stream that is in use, which nobody may ask for again
            return found, results

    def _movable(self, operator: RepeatedOperator, call: Callable[[], Any], layout: Results) -> object | None:
        """What a call launches, for results elsewhere: the results of a recording are there while the next one is made. Scratch memory may
        lie elsewhere, too; where that leaves open what an address belongs to, another recording may not."""
        before: tuple[object, tuple[int, ...], Any] | None = None
        for _ in range(_TRIES):
            launches, results = self._recorded(operator, call, layout.storages)
            begins = None if launches is None else layout.begins(results)
            if launches is None or begins is None:
                return None
            if before is not None:
                storages = tuple(zip(before[1], layout.storages, begins, strict=True))
                found = operator.movable(before[0], launches, storages, *self._memory(), layout.maker())
                if found is not None:
                    return found
            before = (launches, begins, results)
        return None

    def _memory(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Where each piece of memory begins that scratch of recordings lies in, and its bytes; and the same of all that torch has. Pieces
        past the limit are left out: what has scratch there stays torch's."""
        pools = segments_by_pool(self._device)
        spans = [span for each in pools.values() for span in each]
        begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
        kept = pools.get(self._pool.id, [])[:_MOST_PIECES]
        return tuple((span[0], span[1] - span[0]) for span in kept), ((begin, end - begin),)

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


def _holes(storages: tuple[int, ...], device: torch.device) -> list[torch.Tensor]:
    """Leaves room for results between memory that is in use while these tensors are there, so that no scratch memory begins where a
    result ends: such an address could be either's."""
    rooms = [torch.empty(nbytes, dtype=torch.uint8, device=device) for nbytes in storages for _ in range(4)]
    return rooms[::2]


def _function(name: str) -> Callable[..., Any]:
    """torch's function of an operator."""
    if name in PLAIN_FUNCTIONS:
        plain: Callable[..., Any] = getattr(torch, PLAIN_FUNCTIONS[name])
        return plain
    namespace, operator, overload = ir.overload_path(name)
    found: Callable[..., Any] = getattr(getattr(torch_operators(namespace), operator), overload)
    return found


def _repeater(device: ir.Device) -> OperatorRepeater | None:
    """The runtime of Triton kernels has one, where the device is there."""
    runtime = triton_runtime()
    return runtime.operator_repeater(device) if isinstance(runtime, RepeatingRuntime) else None


REPEATERS = Repeaters()
"""Those of this process."""


def repeated_operator(name: str, device: str, calls: int) -> Callable[..., Any]:
    """torch's function of an operator that `is_repeatable` (attention: without dropout), of tensors that require no gradients, for a
    program that calls it `calls` times; where a runtime can, one that launches again what an equal call launched before. Raises ValueError
    for other operators."""
    if not is_repeatable(name):
        raise ValueError(f"{name} may do more than launch kernels")
    where = torch.device(device)
    return REPEATERS.operator(name, ir.Device(where.type, where.index), calls)

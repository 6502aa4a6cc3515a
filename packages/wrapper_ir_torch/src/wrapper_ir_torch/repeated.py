"""Matmuls and attention on a GPU whose kernels are launched again without calling torch and its libraries, if
a runtime can.

The launches of an operator are observed once, on a stream that is recorded and never run. Its kernels may use
torch's workspace for that stream, and the operator's scratch memory. Both are allocated in a dedicated pool,
so that their addresses stay valid. Each stream that programs run on has its own recording stream, so that the
kernels that use this memory run in order. The workspace of a stream that programs run on is freed, so that
the stream has one, unless others call torch for matmuls there.

Results that an operator allocates have other addresses in each call. Two recordings show the positions of
these addresses in the launches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

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

Function: TypeAlias = Callable[..., Any]  # Any: an operator's arguments and results

_MOST_PIECES = 256
"""The maximal number of pieces of memory that `RepeatedOperator.movable` accepts."""
_TRIES = 3
"""Recordings of a call before giving up. Two in a row must identify the addresses of results."""


class Repeaters:
    """Repeated operators by device. Like memory pools they belong to the process: programs share the
    workspaces."""

    def __init__(self) -> None:
        self._devices: dict[ir.Device, _Recording | None] = {}
        self._lock = threading.Lock()

    def operator(self, name: str, device: ir.Device, calls: int) -> Function:
        """See `repeated_operator`."""
        function = _function(name)
        with self._lock:
            if device not in self._devices:
                repeater = _repeater(device)
                self._devices[device] = (
                    _Recording(repeater, device) if repeater is not None and has_memory_pools() else None
                )
            recording = self._devices[device]
        return function if recording is None else recording.operator(name, function, calls)


class _Recording:
    """Observes the launches of operators on one device."""

    def __init__(self, repeater: OperatorRepeater, device: ir.Device) -> None:
        self._repeater = repeater
        self._device = torch.device(str(device))
        self._settings = matmul_settings()
        self._pool: torch.cuda.MemPool | None = None
        self._segments: list[tuple[int, int]] = []
        self._streams: dict[int, int] = {}
        """The recording stream of each stream that programs run on."""
        self._lock = threading.Lock()

    def operator(self, name: str, function: Function, calls: int) -> Function:
        """Returns the operator for a program with this number of calls."""
        watchers = (*WATCHERS, *MAKING_WATCHERS) if makes_results(name) else WATCHERS

        def written(*args: object, **kwargs: object) -> object | None:
            return self._recorded(repeated, lambda: function(*args, **kwargs), ())[0]

        def returned(*args: object, **kwargs: object) -> tuple[object | None, object]:
            results = function(*args, **kwargs)
            layout = described(results, self._device)
            return layout and self._movable(repeated, lambda: function(*args, **kwargs), layout), results

        operator = Repeatable(name, function, self._settings, watchers, makes_results(name))
        repeated = self._repeater.repeated(operator, returned if makes_results(name) else written, calls)
        return repeated

    def _recorded(
        self, operator: RepeatedOperator, call: Callable[[], object], storages: tuple[int, ...]
    ) -> tuple[object | None, object]:
        """Returns the launches of a call, and its results, whose storages have these sizes in bytes. Returns
        None if torch refuses the recording, or if memory would not come from the pool. The operator itself
        then raises its error."""
        with self._lock, paused_collection():
            side, pool = self._side(), self._scratch_pool()
            with using_pool(pool, self._device), torch.cuda.stream(stream_at(side, self._device)):
                try:
                    holes = _holes(storages, self._device) if self._is_served() else None
                except torch.OutOfMemoryError:  # the call itself needs less memory
                    holes = None
                if holes is None:
                    return None, None
                operator.begin(side)
                try:
                    results = call()
                except RuntimeError:
                    operator.end(side)
                    return None, None
                launches = operator.end(side)
                del holes
            forget_workspaces()  # torch must not reuse that of `side`, which belongs to the recording
            return launches, results

    def _movable(
        self, operator: RepeatedOperator, call: Callable[[], object], layout: Results
    ) -> object | None:
        """Returns the launches of a call, for results at other addresses. The results of one recording live
        while the next one is recorded. Scratch memory may move, too. If the owner of an address remains
        ambiguous, another recording may resolve it."""
        before: tuple[object, tuple[int, ...], object] | None = None
        for _ in range(_TRIES):
            launches, results = self._recorded(operator, call, layout.storages)
            begins = layout.begins(results) if launches is not None and isinstance(results, tuple) else None
            if launches is None or begins is None:
                return None
            if before is not None:
                storages = tuple(zip(before[1], layout.storages, begins, strict=True))
                movable = operator.movable(before[0], launches, storages, *self._memory(), layout.maker())
                if movable is not None:
                    return movable
            before = (launches, begins, results)
        return None

    def _memory(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Returns begin and bytes of each piece of memory with scratch of recordings, and of all memory of
        torch. Pieces past the limit are omitted: operators with scratch there are not repeated."""
        pools = segments_by_pool(self._device)
        spans = [span for each in pools.values() for span in each]
        begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
        scratch = pools.get(self._scratch_pool().id, [])[:_MOST_PIECES]
        return tuple((span[0], span[1] - span[0]) for span in scratch), ((begin, end - begin),)

    def _is_served(self) -> bool:
        """Returns whether allocations come from the pool: of the pools that a thread uses, torch allocates
        from the first."""
        address = torch.empty(1, dtype=torch.uint8, device=self._device).data_ptr()
        if not _is_in(self._segments, address):
            self._segments = segments_of({self._scratch_pool().id}, self._device)
        return _is_in(self._segments, address)

    def _scratch_pool(self) -> torch.cuda.MemPool:
        """Returns the pool of workspaces and scratch memory, which the first recording creates."""
        if self._pool is None:
            self._pool = memory_pool(self._device)
        return self._pool

    def _side(self) -> int:
        current = torch.cuda.current_stream(self._device).cuda_stream
        if current not in self._streams:
            self._streams[current] = self._repeater.new_stream()
        return self._streams[current]


def _is_in(spans: Sequence[tuple[int, int]], address: int) -> bool:
    return any(begin <= address < end for begin, end in spans)


def _holes(storages: tuple[int, ...], device: torch.device) -> list[torch.Tensor]:
    """Allocates tensors that separate results from other memory while they live, so that no scratch memory
    begins where a result ends: the owner of such an address would be ambiguous."""
    tensors = [torch.empty(nbytes, dtype=torch.uint8, device=device) for nbytes in storages for _ in range(4)]
    return tensors[::2]


def _function(name: str) -> Function:
    """Returns torch's function of an operator."""
    if name in PLAIN_FUNCTIONS:
        plain: Function = getattr(torch, PLAIN_FUNCTIONS[name])
        return plain
    namespace, operator, overload = ir.overload_path(name)
    function: Function = getattr(getattr(torch_operators(namespace), operator), overload)
    return function


def _repeater(device: ir.Device) -> OperatorRepeater | None:
    """Returns the repeater of the runtime of Triton kernels, if it and torch support the device."""
    if device.type == "cuda" and not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        return None
    runtime = triton_runtime()
    return runtime.operator_repeater(device) if isinstance(runtime, RepeatingRuntime) else None


REPEATERS = Repeaters()
"""The repeated operators of this process."""


def repeated_operator(name: str, device: str, calls: int) -> Function:
    """Returns torch's function of an operator that `is_repeatable` (attention: without dropout), for tensors
    that require no gradients and a program that calls it `calls` times. If a runtime can, it launches again
    what an equal call launched before. Raises ValueError for other operators."""
    if not is_repeatable(name):
        raise ValueError(f"{name} may do more than launch kernels")
    target = torch.device(device)
    return REPEATERS.operator(name, ir.Device(target.type, target.index), calls)

"""CUDA graphs of torch, as `wrapper_ir.runtime.Recorded` uses them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Hashable, Sequence, Set
from typing import Any

import torch
from torch import Tensor

from wrapper_ir.collection import paused_collection
from wrapper_ir_torch._compat import (
    addresses_are,
    clone_storage,
    new_stream,
    storage_holders,
    storage_key,
    stream_at,
)

__all__ = ["TorchGraphs"]


class TorchGraphs:
    """See `wrapper_ir.runtime.GraphDevice`. All recordings of a device take memory from one pool, where one may have what another
    uses between its begin and its end; results stay theirs."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.index = self.device.index or 0
        self._pool: Any = None  # Any: torch's own handle
        self._side: torch.cuda.Stream | None = None
        self._is_recording = torch._C._cuda_isCurrentStreamCapturing
        self._raw_stream = torch._C._cuda_getCurrentRawStream
        self.are_at = addresses_are
        self.holders: Callable[[Sequence[Any]], Sequence[int]] = storage_holders

    def stream(self) -> Hashable | None:
        """The current stream's address; None inside of `torch.cuda.graph`."""
        return None if self._is_recording() else self._raw_stream(self.index)

    def follow(self, before: Hashable) -> None:
        """Waits for an event at the end of that stream."""
        assert isinstance(before, int)
        torch.cuda.current_stream(self.device).wait_stream(stream_at(before, self.device))

    def addresses(self, args: Sequence[Any], positions: Sequence[int]) -> list[int | None]:
        """`data_ptr` of some."""
        wanted = set(positions)
        return [x.data_ptr() if i in wanted else None for i, x in enumerate(args)]

    def buffer(self, arg: Tensor) -> Tensor | None:
        """Of the same layout; torch copies to no tensor whose elements share bytes."""
        made = torch.empty_strided(arg.size(), arg.stride(), dtype=arg.dtype, device=arg.device)
        return None if torch._debug_has_internal_overlap(made) == 1 else made

    def copy(self, targets: list[Tensor], sources: list[Tensor]) -> None:
        """One call for all."""
        if len(targets) == 1:
            targets[0].copy_(sources[0])
        else:
            torch._foreach_copy_(targets, sources)

    def record(self, run: Callable[[], Sequence[Tensor]]) -> tuple[Callable[[], None], tuple[Tensor, ...]]:
        """Records on a stream of its own. What random operators draw follows torch's generator, and advances it, at each replay."""
        if self._side is None:
            self._side = new_stream(self.device)
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        gc.collect()  # what dies during a recording may be a graph, which cannot be destroyed then
        torch.cuda.synchronize(self.device)
        torch._C._cuda_clearCublasWorkspaces()  # those of a recording are the pool's
        with paused_collection(), torch.cuda.stream(self._side):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                results = tuple(run())
            except BaseException:
                _abandon(graph)
                raise
            graph.capture_end()
        torch._C._cuda_clearCublasWorkspaces()
        return graph.replay, results

    def storages(self, results: Sequence[Tensor]) -> Sequence[int]:
        """Addresses of torch's storage objects, which the results keep alive."""
        return [storage_key(r) for r in results]

    def lend(self, results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Detached: of each call its own, which autograd may mark."""
        return tuple(map(torch.Tensor.detach, results))

    def own(self, results: tuple[Tensor, ...], positions: Set[int]) -> tuple[Tensor, ...]:
        """Copies whole storages."""
        copies: dict[int, torch.UntypedStorage] = {}
        made = list(map(torch.Tensor.detach, results))
        for i in positions:
            result = results[i]
            key = storage_key(result)
            if key not in copies:
                copies[key] = clone_storage(result)
            empty = torch.empty(0, dtype=result.dtype, device=result.device)
            made[i] = empty.set_(copies[key], result.storage_offset(), result.size(), result.stride())
        return tuple(made)

    def wait(self) -> None:
        """Waits for all streams."""
        torch.cuda.synchronize(self.device)

    def is_exhausted(self, error: Exception) -> bool:
        """Whether torch's allocator raised it."""
        return isinstance(error, torch.OutOfMemoryError)


def _abandon(graph: torch.cuda.CUDAGraph) -> None:
    """Ends a recording that failed: its stream can be used again, and torch's allocator and generators go on."""
    with contextlib.suppress(RuntimeError):  # CUDA has given it up already, and says so
        graph.capture_end()

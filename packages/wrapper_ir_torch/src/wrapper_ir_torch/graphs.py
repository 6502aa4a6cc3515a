"""CUDA graphs of torch, as `wrapper_ir_runtime.Recorded` uses them."""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence, Set
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from wrapper_ir.plugins.protocols import AddressComparer
from wrapper_ir.support.collection import paused_collection
from wrapper_ir_runtime import Span
from wrapper_ir_torch._compat import (
    allocating_from,
    end_allocation,
    forget_workspaces,
    free_storage,
    has_memory_pools,
    is_dense,
    memory_pool,
    new_stream,
    segments_of,
    storage_holders,
    storage_key,
    stream_at,
    using_pool,
    window_of,
    window_of_copy,
)
from wrapper_ir_torch.runtimes import triton_runtime


class _Ending:
    """Memory of a storage on a GPU, as libraries of other arrays show it. Whoever takes it up holds this object, at whose end the storage
    gives its memory back."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self._storage = storage
        self.__cuda_array_interface__ = {
            "data": (storage.data_ptr(), False),
            "shape": (storage.nbytes(),),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        free_storage(self._storage)


class TorchGraphs:
    """See `wrapper_ir_runtime.GraphDevice`. All recordings of a device take memory from one pool, where one may have what another
    frees."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.index = self.device.index or 0
        self._pool: Any = None  # Any: torch's own handle
        self._pools: set[Any] = set()
        self._keeper: torch.cuda.CUDAGraph | None = None
        self._warm_pool: Any = None
        """The pool of warm-ups, until the next recording. Any: torch gives its class no types."""
        self._warming = threading.Lock()
        self._side: torch.cuda.Stream | None = None
        self._is_recording = torch._C._cuda_isCurrentStreamCapturing
        self._raw_stream = torch._C._cuda_getCurrentRawStream
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

    def checker(self, args: Sequence[Any], positions: Sequence[int]) -> Callable[[list[Any]], bool]:
        """Native code compares 96 in less than 1 us, Python in 6, the function that torch has for it in 13."""
        found = [args[i].data_ptr() for i in positions]
        native = triton_runtime()
        check = native.address_check(positions, found) if isinstance(native, AddressComparer) else None
        if check is not None:
            return check
        if len(positions) < 2:
            return lambda args: [args[i].data_ptr() for i in positions] == found
        pick, address = itemgetter(*positions), torch.Tensor.data_ptr
        return lambda args: [*map(address, pick(args))] == found

    def is_here(self, args: Sequence[Any], positions: Sequence[int]) -> bool:
        """Whether all are tensors of a CUDA device."""
        return all(args[i].is_cuda for i in positions)

    def buffer(self, arg: Tensor) -> Tensor | None:
        """Of the same layout; torch copies to no tensor whose elements share bytes."""
        with torch.cuda.stream(self._recording_stream()), allocating_from(self._pool, self.device):
            made = torch.empty_strided(arg.size(), arg.stride(), dtype=arg.dtype, device=arg.device)
        return None if torch._debug_has_internal_overlap(made) == 1 else made

    def copy(self, targets: list[Tensor], sources: list[Tensor]) -> None:
        """One by one where they are few: the call for all of them takes as long as ten."""
        if len(targets) > 8:
            torch._foreach_copy_(targets, sources)
            return
        for target, source in zip(targets, sources):
            target.copy_(source)

    def warm_up(self, run: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """In a pool of its own. That of recordings would have to know who holds its results, as earlier recordings may compute there; in
        torch's, what others allocate next would lie between what a warm-up frees, and keep segments from being given back. A
        second thread's at the same time runs as it is, and so does one where torch has no such pools."""
        if not has_memory_pools() or not self._warming.acquire(blocking=False):
            return run()
        try:
            if self._warm_pool is None:
                forget_workspaces()  # those of compilation would leave a hole when they end with the next recording
                torch.cuda.empty_cache()  # while a pool is in use, torch gives nothing back where memory is short
                self._warm_pool = memory_pool(self.device, is_reserve=True)
            with using_pool(self._warm_pool, self.device):
                return run()
        finally:
            self._warming.release()

    def _give_back(self) -> None:
        """Gives the device what plain runs have needed, which now comes from the pool."""
        if self._warming.acquire(blocking=False):  # else another thread's warm-up is in use of it
            self._warm_pool = None
            self._warming.release()
            torch.cuda.empty_cache()

    def record(self, run: Callable[[], Sequence[Tensor]]) -> tuple[Callable[[], None], tuple[Tensor, ...]]:
        """Records on a stream of its own. What random operators draw follows torch's generator, and advances it, at each replay."""
        side = self._recording_stream()
        graph = torch.cuda.CUDAGraph()
        gc.collect()  # what dies during a recording may be a graph, which cannot be destroyed then
        torch.cuda.synchronize(self.device)
        forget_workspaces()  # those of a recording are the pool's
        self._give_back()
        with paused_collection(), torch.cuda.stream(side):
            try:
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                results = tuple(run())
                graph.capture_end()
            except BaseException:
                self._abandon(graph)
                raise
        forget_workspaces()
        return graph.replay, results

    def _recording_stream(self) -> torch.cuda.Stream:
        """The stream of recordings, whose memory is that of the pool. Raises RuntimeError where torch's allocator makes none: cudaMallocAsync
        ends the process when workspaces of cuBLAS that a recording has allocated are given back."""
        if not has_memory_pools():
            raise RuntimeError(
                "torch allocates with cudaMallocAsync; recordings need backend:native in PYTORCH_CUDA_ALLOC_CONF"
            )
        if self._side is None:
            self._side = new_stream(self.device)
            self._begin_pool()
        return self._side

    def _begin_pool(self) -> None:
        """A pool, which an empty recording keeps: torch takes none up again whose recordings have all died."""
        self._pool = torch.cuda.graph_pool_handle()
        self._pools.add(self._pool)
        self._keeper = torch.cuda.CUDAGraph()
        with warnings.catch_warnings(), torch.cuda.stream(self._side):
            warnings.simplefilter("ignore")  # that it is empty
            self._keeper.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            self._keeper.capture_end()

    def _abandon(self, graph: torch.cuda.CUDAGraph) -> None:
        """Ends a recording that failed. Where CUDA has given it up already, torch raises before it tells its allocator and its
        generators that they may go on: the pool is not used again, and the recording that begins another one does the rest."""
        with contextlib.suppress(RuntimeError):
            graph.capture_end()
        with contextlib.suppress(RuntimeError):
            end_allocation(self.device, self._pool)
        graph.reset()
        self._begin_pool()

    def memory(self) -> Sequence[Span]:
        """The segments of its pools."""
        return segments_of(self._pools, self.device)

    def spans(self, tensors: Sequence[Tensor]) -> Sequence[Span]:
        """All bytes of storages."""
        found = [t.untyped_storage() for t in tensors]
        return [(s.data_ptr(), s.data_ptr() + s.nbytes()) for s in found]

    def release(self, tensor: Tensor, args: Sequence[Tensor]) -> list[Tensor]:
        """Tensors of a storage of their own over the same bytes, with which those end. Torch asks the driver about them, which it does
        before a recording begins. Where it cannot make such tensors (without NumPy), the bytes stay the recording's."""
        try:
            ending = torch.as_tensor(_Ending(tensor.untyped_storage()), device=tensor.device)
        except (ImportError, RuntimeError, TypeError):
            return [*args]
        return [window_of(ending.untyped_storage(), arg) for arg in args]

    def storages(self, results: Sequence[Tensor]) -> Sequence[int]:
        """Addresses of torch's storage objects, which the results keep alive."""
        return [storage_key(r) for r in results]

    def giver(self, results: tuple[Tensor, ...], owned: Set[int]) -> Callable[[], tuple[Tensor, ...]]:
        """Lends detached tensors, of each call its own, which autograd may mark; copies share whole storages."""
        if not owned:
            return lambda: tuple(map(torch.Tensor.detach, results))
        keys = [storage_key(r) for r in results]
        alone = {i for i in owned if keys.count(keys[i]) == 1 and is_dense(results[i])}
        if len(results) == 1 and alone:
            (clone,) = (results[0].clone,)
            return lambda: (clone(),)

        def give() -> tuple[Tensor, ...]:
            copies: dict[int, torch.UntypedStorage] = {}
            made = list(map(torch.Tensor.detach, results))
            for i in owned:
                made[i] = results[i].clone() if i in alone else window_of_copy(results[i], copies)
            return tuple(made)

        return give

    def wait(self) -> None:
        """Waits for all streams."""
        torch.cuda.synchronize(self.device)

    def is_exhausted(self, error: Exception) -> bool:
        """Whether torch's allocator raised it."""
        return isinstance(error, torch.OutOfMemoryError)

"""CUDA graphs of torch, as `wrapper_ir_runtime.GraphedFunction` uses them."""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence, Set
from operator import itemgetter
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from wrapper_ir.plugins.protocols import AddressComparer
from wrapper_ir.support.collection import paused_collection
from wrapper_ir_runtime import Span
from wrapper_ir_torch._compat import (
    PoolId,
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

Arguments: TypeAlias = Sequence[Any]
"""Any: the arguments of a program. Only those at the given positions are tensors."""


class _Ending:
    """The memory of a storage on a GPU, in the interface for libraries of other arrays. Importers keep this
    object, which frees the storage's memory when it is destroyed."""

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
    """See `wrapper_ir_runtime.GraphDevice`. All graphs of a device allocate from one pool, where later
    graphs may reuse memory that earlier ones free."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.index = self.device.index or 0
        self._pool = cast("torch.cuda._POOL_HANDLE", (0, 0))  # until the first capture
        self._pools: set[PoolId] = set()
        self._keeper: torch.cuda.CUDAGraph | None = None
        self._warm_pool: torch.cuda.MemPool | None = None
        """The pool of warm-ups, until the next capture."""
        self._warming = threading.Lock()
        self._side: torch.cuda.Stream | None = None
        self._is_capturing = torch._C._cuda_isCurrentStreamCapturing
        self._raw_stream = torch._C._cuda_getCurrentRawStream
        self.holders: Callable[[Sequence[int]], Sequence[int]] = storage_holders

    def stream(self) -> Hashable | None:
        """Returns the current stream's address, or None inside of `torch.cuda.graph`."""
        return None if self._is_capturing() else self._raw_stream(self.index)

    def follow(self, before: Hashable) -> None:
        """Waits for an event at the end of that stream."""
        assert isinstance(before, int)
        torch.cuda.current_stream(self.device).wait_stream(stream_at(before, self.device))

    def addresses(self, args: Arguments, positions: Sequence[int]) -> list[int | None]:
        """Returns `data_ptr` of the arguments at `positions`, and None for others."""
        is_read = set(positions)
        return [x.data_ptr() if i in is_read else None for i, x in enumerate(args)]

    def checker(self, args: Arguments, positions: Sequence[int]) -> Callable[[list[Any]], bool]:
        """Returns a function that compares addresses. For 96 tensors, native code needs less than 1 us,
        Python 6, torch's function 13."""
        expected = [args[i].data_ptr() for i in positions]
        native = triton_runtime()
        check = native.address_check(positions, expected) if isinstance(native, AddressComparer) else None
        if check is not None:
            return check
        if len(positions) < 2:
            return lambda args: [args[i].data_ptr() for i in positions] == expected
        pick, address = itemgetter(*positions), torch.Tensor.data_ptr
        return lambda args: [*map(address, pick(args))] == expected

    def is_here(self, args: Arguments, positions: Sequence[int]) -> bool:
        """Returns whether all tensors at `positions` are on a CUDA device."""
        return all(args[i].is_cuda for i in positions)

    def buffer(self, arg: Tensor) -> Tensor | None:
        """Returns a tensor of the same layout, or None if its elements overlap, since torch refuses that
        copy."""
        with torch.cuda.stream(self._capture_stream()), allocating_from(self._pool, self.device):
            buffer = torch.empty_strided(arg.size(), arg.stride(), dtype=arg.dtype, device=arg.device)
        return None if torch._debug_has_internal_overlap(buffer) == 1 else buffer

    def copy(self, targets: list[Tensor], sources: list[Tensor]) -> None:
        """Copies few tensors one by one: the call for all of them takes as long as ten copies."""
        if len(targets) > 8:
            torch._foreach_copy_(targets, sources)
            return
        for target, source in zip(targets, sources):
            target.copy_(source)

    def warm_up(self, run: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Allocates from a separate pool. In the pool of graphs, earlier graphs may overwrite its
        results. In torch's own pool, later allocations between the blocks that a warm-up frees would keep
        segments from being freed. A concurrent warm-up in a second thread runs without a pool, and so does
        one if torch does not support pools."""
        if not has_memory_pools() or not self._warming.acquire(blocking=False):
            return run()
        try:
            if self._warm_pool is None:
                # Those of compilation would leave a hole when the next capture frees them.
                forget_workspaces()
                torch.cuda.empty_cache()  # while a pool is in use, torch frees nothing when memory is short
                self._warm_pool = memory_pool(self.device, is_reserve=True)
            with using_pool(self._warm_pool, self.device):
                return run()
        finally:
            self._warming.release()

    def _give_back(self) -> None:
        """Frees the memory of warm-ups to the device. Programs now use that of graphs."""
        if self._warming.acquire(blocking=False):  # else another thread's warm-up uses it
            self._warm_pool = None
            self._warming.release()
            torch.cuda.empty_cache()

    def capture(self, run: Callable[[], Sequence[Tensor]]) -> tuple[Callable[[], None], tuple[Tensor, ...]]:
        """Captures on a dedicated stream. Random operators follow torch's generator, and advance it, at each
        replay."""
        side = self._capture_stream()
        graph = torch.cuda.CUDAGraph()
        gc.collect()  # graphs cannot be destroyed during a capture
        torch.cuda.synchronize(self.device)
        forget_workspaces()  # a graph allocates them in the pool
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

    def _capture_stream(self) -> torch.cuda.Stream:
        """Returns the stream of graphs, whose memory is in the pool. Raises RuntimeError if torch's
        allocator does not support pools: cudaMallocAsync aborts the process when workspaces of cuBLAS that a
        graph allocated are freed."""
        if not has_memory_pools():
            raise RuntimeError(
                "torch allocates with cudaMallocAsync; graphs need backend:native in PYTORCH_CUDA_ALLOC_CONF"
            )
        if self._side is None:
            self._side = new_stream(self.device)
            self._begin_pool()
        return self._side

    def _begin_pool(self) -> None:
        """Begins a pool and keeps it with an empty graph: torch does not reuse a pool whose graphs
        were all destroyed."""
        self._pool = torch.cuda.graph_pool_handle()
        self._pools.add(self._pool)
        self._keeper = torch.cuda.CUDAGraph()
        with warnings.catch_warnings(), torch.cuda.stream(self._side):
            warnings.simplefilter("ignore")  # torch warns that the graph is empty
            self._keeper.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            self._keeper.capture_end()

    def _abandon(self, graph: torch.cuda.CUDAGraph) -> None:
        """Ends a graph that failed. If CUDA has invalidated it, torch raises before it resets its
        allocator and its generators. The pool is therefore abandoned, and the graph that begins another
        one resets the generators."""
        with contextlib.suppress(RuntimeError):
            graph.capture_end()
        with contextlib.suppress(RuntimeError):
            end_allocation(self.device, self._pool)
        graph.reset()
        self._begin_pool()

    def memory(self) -> Sequence[Span]:
        """Returns the segments of all pools of graphs."""
        return segments_of(self._pools, self.device)

    def spans(self, tensors: Sequence[Tensor]) -> Sequence[Span]:
        """Returns the address ranges of whole storages."""
        storages = [t.untyped_storage() for t in tensors]
        return [(s.data_ptr(), s.data_ptr() + s.nbytes()) for s in storages]

    def release(self, tensor: Tensor, args: Sequence[Tensor]) -> list[Tensor]:
        """Returns tensors over the same bytes in a new storage, which frees them when it is destroyed. Torch
        queries the driver about the memory, which is not possible during a capture. If such tensors cannot
        be created (without NumPy), the bytes remain the graph's."""
        try:
            ending = torch.as_tensor(_Ending(tensor.untyped_storage()), device=tensor.device)
        except (ImportError, RuntimeError, TypeError):
            return [*args]
        return [window_of(ending.untyped_storage(), arg) for arg in args]

    def storages(self, results: Sequence[Tensor]) -> Sequence[int]:
        """Returns addresses of torch's storage objects, which the results keep alive."""
        return [storage_key(r) for r in results]

    def giver(self, results: tuple[Tensor, ...], owned: Set[int]) -> Callable[[], tuple[Tensor, ...]]:
        """Returns a function that lends detached tensors, new ones in each call, which autograd may mark.
        Copies share whole storages."""
        if not owned:
            return lambda: tuple(map(torch.Tensor.detach, results))
        keys = [storage_key(r) for r in results]
        alone = {i for i in owned if keys.count(keys[i]) == 1 and is_dense(results[i])}
        if len(results) == 1 and alone:
            (clone,) = (results[0].clone,)
            return lambda: (clone(),)

        def give() -> tuple[Tensor, ...]:
            copies: dict[int, torch.UntypedStorage] = {}
            tensors = list(map(torch.Tensor.detach, results))
            for i in owned:
                tensors[i] = results[i].clone() if i in alone else window_of_copy(results[i], copies)
            return tuple(tensors)

        return give

    def wait(self) -> None:
        """Waits for all streams."""
        torch.cuda.synchronize(self.device)

    def is_exhausted(self, error: Exception) -> bool:
        """Returns whether torch's allocator raised the error."""
        return isinstance(error, torch.OutOfMemoryError)

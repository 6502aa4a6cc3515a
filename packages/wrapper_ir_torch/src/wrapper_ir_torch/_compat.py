"""Differences between the supported torch versions (2.11 to 2.15), and the private names that are used."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import torch
from torch import Tensor
from torch._library import simple_registry

from wrapper_ir.operators import native as native_operators
from wrapper_ir.operators import symmetric as symmetric_operators
from wrapper_ir_runtime import ProgramGroups, TorchCaller, TorchGroups

if TYPE_CHECKING:  # not in all builds of torch
    from torch._C._distributed_c10d import ProcessGroup, ProcessGroupNCCL, Store

OpOverload: TypeAlias = "torch._ops.OpOverload[..., object]"
PoolId = tuple[int, int]
"""Torch's identifier of a memory pool."""


# Only in a torch that is built for CUDA, present and alike in torch 2.11 to 2.15.
def storage_holders(keys: Sequence[int]) -> list[int]:
    """Returns the number of references to each storage, by `storage_key`."""
    return [*map(torch._C._storage_Use_Count, keys)]


def free_storage(storage: torch.UntypedStorage) -> None:
    """Returns the memory of a storage on a GPU to torch's allocator. The storage keeps its address."""
    torch._C._free_And_Remove_DeleterFn(storage._cdata)


@contextmanager
def allocating_from(pool: PoolId, device: torch.device) -> Iterator[None]:
    """Allocates this thread's new memory on a GPU from a pool of graphs that has memory already."""
    index = device.index or 0
    torch._C._cuda_beginAllocateCurrentThreadToPool(index, pool)
    try:
        yield
    finally:
        torch._C._cuda_endAllocateToPool(index, pool)
        torch._C._cuda_releasePool(index, pool)


def segments_by_pool(device: torch.device) -> dict[PoolId, list[tuple[int, int]]]:
    """Returns the address ranges of all segments that torch has from the driver, by their pool."""
    spans: dict[PoolId, list[tuple[int, int]]] = {}
    for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]  # torch's own
        if segment["device"] == (device.index or 0):
            span = (segment["address"], segment["address"] + segment["total_size"])
            spans.setdefault(segment["segment_pool_id"], []).append(span)
    return spans


def segments_of(pools: Set[PoolId], device: torch.device) -> list[tuple[int, int]]:
    """Returns the address ranges of the segments that these pools have from the driver."""
    return [span for pool, spans in segments_by_pool(device).items() if pool in pools for span in spans]


def bytes_tensor(buffer: memoryview) -> Tensor:
    """Returns the bytes as a `uint8` tensor over the same memory. A tensor over a read-only buffer must not
    be written."""
    if buffer.nbytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return torch.frombuffer(buffer.cast("B"), dtype=torch.uint8)


def caller() -> TorchCaller:
    """Returns the calling convention's access to the caller's torch tensors."""
    return TorchCaller(torch)


def end_allocation(device: torch.device, pool: PoolId) -> None:
    """Stops torch's allocator from serving graphs from this pool; raises RuntimeError if it was not
    serving any."""
    torch._C._cuda_endAllocateToPool(device.index or 0, pool)


def is_dense(tensor: Tensor) -> bool:
    """Returns whether a tensor's clone has its strides."""
    filled = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return filled and torch._debug_has_internal_overlap(tensor) != 1


def window_of_copy(tensor: Tensor, copies: dict[int, torch.UntypedStorage]) -> Tensor:
    """Returns a tensor with this layout over a copy of its whole storage. `copies` caches copies by
    `storage_key`."""
    key = storage_key(tensor)
    if key not in copies:
        copies[key] = tensor.untyped_storage().clone()  # type: ignore[no-untyped-call]  # torch's own
    return window_of(copies[key], tensor)


def window_of(storage: torch.UntypedStorage, like: Tensor) -> Tensor:
    """Returns a tensor over this storage with the layout and offset of `like`."""
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    return empty.set_(storage, like.storage_offset(), like.size(), like.stride())


def new_stream(device: torch.device) -> torch.cuda.Stream:
    """Returns a stream from torch's pool."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's own


def stream_at(address: int, device: torch.device) -> torch.cuda.Stream:
    """Returns the stream with this address; 0 is the device's default stream."""
    if not address:
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(address, device=device)  # type: ignore[no-untyped-call]  # torch's own


WATCHERS: tuple[Callable[[], int], ...] = (torch._C._len_torch_dispatch_stack,)
"""Queries for the number of modes that observe each operator call (counters of operations, tracers)."""
MAKING_WATCHERS: tuple[Callable[[], bool], ...] = (torch._C._is_any_autocast_enabled,)
"""Queries for modes that change the results of operators."""
_guards: Any = torch._C._dynamo.guards  # Any: its functions have no types
FAST_EMPTY: dict[str, Callable[..., Tensor]] = {
    "cpu": _guards._empty_strided_cpu,
    "cuda": _guards._empty_strided_cuda,
}
"""`(sizes, strides, dtype)` to a tensor on the current device of a type, as in torch's compiled code."""
FAST_VIEW: Callable[..., Tensor] = _guards._reinterpret_tensor
"""`(x, sizes, strides, offset)`, the offset in elements from the first one of `x`."""


def matmul_settings() -> tuple[Callable[[], Hashable], ...]:
    """Returns all settings of torch that results of a matmul on a GPU depend on. The first one raises
    RuntimeError if it contradicts torch's newer settings of precision."""
    return (
        torch._C._get_cublas_allow_tf32,
        torch._C._get_cublas_allow_fp16_reduced_precision_reduction,
        torch._C._get_cublas_allow_bf16_reduced_precision_reduction,
        torch._C._get_cublas_allow_fp16_accumulation,
        torch._C._get_deterministic_algorithms,
    )


def forget_workspaces() -> None:
    """Frees the workspaces of cuBLAS into their pools. Torch allocates new ones for the next matmul."""
    torch._C._cuda_clearCublasWorkspaces()


def has_memory_pools() -> bool:
    """Returns whether torch's allocator on GPUs supports user pools; cudaMallocAsync does not."""
    return torch.cuda.get_allocator_backend() == "native"


def memory_pool(device: torch.device, *, is_reserve: bool = False) -> torch.cuda.MemPool:
    """Returns a memory pool, to which its blocks return while it lives. If it `is_reserve`, other allocations
    use its free blocks when the device is out of memory."""
    with torch.cuda.device(device):
        return torch.cuda.MemPool(use_on_oom=is_reserve)


def using_pool(pool: torch.cuda.MemPool, device: torch.device) -> AbstractContextManager[None]:
    """Allocates from a pool in this thread."""
    allocation: AbstractContextManager[None] = torch.cuda.use_mem_pool(pool, device)
    return allocation


def refuse_multicast() -> None:
    """Stops torch from creating multicast objects of symmetric memory. No operator that programs call needs
    one, and a leaked one can disable the devices of a host. Torch reads the environment at each allocation.
    """
    os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"


# Any: the attributes of a namespace are packets of operators, overloads, or higher-order operators
def torch_operators(namespace: str) -> Any:
    """Returns `torch.ops.<namespace>`. Imports the Python modules that register its operators."""
    if namespace == symmetric_operators.NAMESPACE and torch.distributed.is_available():
        refuse_multicast()
        importlib.import_module("torch.distributed._symmetric_memory")
    if namespace == native_operators.NAMESPACE:
        importlib.import_module("wrapper_ir_torch.native_operators")
    return getattr(torch.ops, namespace)  # operators are found by name


def empty_symmetric(
    sizes: Sequence[int],
    strides: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    group: str,
    id: int,
) -> Tensor:
    """Returns a tensor in memory that the processes of a group share. An id has the same memory in each call
    and serves one tensor at a time."""
    refuse_multicast()
    symmetric = torch._C._distributed_c10d._SymmetricMemory
    return symmetric.empty_strided_p2p(tuple(sizes), tuple(strides), dtype, device, group, id)


def allows_multicast() -> bool:
    """Returns whether NCCL creates multicast objects of registered memory, as configured by its environment
    variable."""
    return os.environ.get("NCCL_NVLS_ENABLE") != "0"


def group_backend(group: ProcessGroup, device: torch.device) -> ProcessGroupNCCL | None:
    """Returns the group's backend on a device, or None if it cannot register memory."""
    try:
        backend = group._get_backend(device)
    except RuntimeError:  # the group has no backend for such devices
        return None
    return (
        cast("ProcessGroupNCCL", backend) if hasattr(backend, "register_mem_pool") else None
    )  # as NCCL does


def connect(backend: ProcessGroupNCCL, device: torch.device) -> None:
    """Creates the communicator unless a collective has created it. All processes of the group call this
    together."""
    if not backend._is_initialized():
        backend.eager_connect_single_device(device)


def new_pool(backend: ProcessGroupNCCL, device: torch.device) -> torch.cuda.MemPool:
    """Returns a memory pool over the backend's allocator for registered memory."""
    with torch.cuda.device(device):
        return torch.cuda.MemPool(backend.mem_allocator)


def empty_in_pool(
    pool: torch.cuda.MemPool,
    sizes: Sequence[int],
    strides: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Returns an uninitialized tensor in memory of the pool."""
    with torch.cuda.use_mem_pool(pool, device):
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)


def pool_segments(pool: torch.cuda.MemPool) -> list[int]:
    """Returns the bytes of each segment of a pool."""
    segments = pool.snapshot()  # type: ignore[no-untyped-call]  # torch's own
    return [segment["total_size"] for segment in segments]


_GROUPS = TorchGroups(torch)


def find_group(name: str) -> ProcessGroup:
    """Returns the process group that this process has registered under `name`; raises RuntimeError."""
    group: ProcessGroup = _GROUPS.find(name)
    return group


def group_store(group: ProcessGroup) -> Store:
    """Returns the store that the processes of a group share."""
    store: Store = _GROUPS.store(group)
    return store


def program_groups(names: Sequence[str], device: str = "cpu", ranks: Sequence[Any] = ()) -> ProgramGroups:
    """Returns a callable that prepares a program's groups before each call on `device`. `ranks` has the
    fields of each `GroupRanks`."""
    return ProgramGroups(_GROUPS, names, device, ranks)


def has_dispatch_modes() -> bool:
    """Returns whether a dispatch mode observes operator calls: fake tensors, tracing, a profiler."""
    return torch._C._len_torch_dispatch_stack() > 0


def is_overload(entry: object) -> TypeGuard[OpOverload]:
    """Returns whether an attribute found under `torch.ops` is an operator that can be called."""
    return isinstance(entry, torch._ops.OpOverload)


def registered_symmetric(overload: OpOverload) -> tuple[str, ...]:
    """Returns the arguments that a library has registered as symmetric memory
    (`torch.library.Library.register_symm_mem_args`)."""
    entry = simple_registry.singleton.find(overload.__qualname__)
    holder = getattr(entry, "symm_mem_args", None)  # not in all versions
    return () if holder is None else tuple(holder.get() or ())


def storage_key(tensor: Tensor) -> int:
    """Returns the address of the C++ storage object, which is unique while the storage lives."""
    key: int = tensor.untyped_storage()._cdata
    return key

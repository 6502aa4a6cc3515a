"""Differences between the supported torch versions (2.11 to 2.15), and the private names that we rely on."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._library import simple_registry

from wrapper_ir.operators import symmetric as symmetric_operators
from wrapper_ir_runtime import ProgramGroups, TorchCaller, TorchGroups


# Only in a torch that is built for CUDA, present and alike in torch 2.11 to 2.15.
def storage_holders(keys: Sequence[int]) -> list[int]:
    """How many holders each storage has, by `storage_key`."""
    return [*map(torch._C._storage_Use_Count, keys)]


def free_storage(storage: torch.UntypedStorage) -> None:
    """Gives the memory of a storage on a GPU back to torch's allocator. The storage stays where it is."""
    torch._C._free_And_Remove_DeleterFn(storage._cdata)


@contextmanager
def allocating_from(pool: Any, device: torch.device) -> Iterator[None]:
    """Within, this thread's new memory on a GPU comes from a pool of recordings, which has some already."""
    index = device.index or 0
    torch._C._cuda_beginAllocateCurrentThreadToPool(index, pool)
    try:
        yield
    finally:
        torch._C._cuda_endAllocateToPool(index, pool)
        torch._C._cuda_releasePool(index, pool)


def segments_by_pool(device: torch.device) -> dict[Any, list[tuple[int, int]]]:
    """The addresses of the memory that torch has from the driver, one piece each, by the pool that it is of."""
    found: dict[Any, list[tuple[int, int]]] = {}
    for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]  # torch's own
        if segment["device"] == (device.index or 0):
            span = (segment["address"], segment["address"] + segment["total_size"])
            found.setdefault(segment["segment_pool_id"], []).append(span)
    return found


def segments_of(pools: Set[Any], device: torch.device) -> list[tuple[int, int]]:
    """The addresses of the memory that these pools have from the driver, one piece each."""
    return [span for pool, spans in segments_by_pool(device).items() if pool in pools for span in spans]


def bytes_tensor(buffer: memoryview) -> Tensor:
    """The bytes as a `uint8` tensor over the same memory, also where the buffer is read-only (never write then)."""
    if buffer.nbytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return torch.frombuffer(buffer.cast("B"), dtype=torch.uint8)


def caller() -> TorchCaller:
    """What calls do with torch's tensors."""
    return TorchCaller(torch)


def end_allocation(device: torch.device, pool: Any) -> None:
    """Makes torch's allocator serve no recording from this pool any more; raises RuntimeError where it does not."""
    torch._C._cuda_endAllocateToPool(device.index or 0, pool)


def is_dense(tensor: Tensor) -> bool:
    """Whether a tensor's clone has its strides."""
    filled = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return filled and torch._debug_has_internal_overlap(tensor) != 1


def window_of_copy(tensor: Tensor, copies: dict[int, torch.UntypedStorage]) -> Tensor:
    """A tensor as this one, over a copy of all bytes under it; `copies` has those that were made, by `storage_key`."""
    key = storage_key(tensor)
    if key not in copies:
        copies[key] = tensor.untyped_storage().clone()  # type: ignore[no-untyped-call]  # torch's own
    return window_of(copies[key], tensor)


def window_of(storage: torch.UntypedStorage, like: Tensor) -> Tensor:
    """A tensor in this storage as `like` is in its own."""
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    return empty.set_(storage, like.storage_offset(), like.size(), like.stride())


def new_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream that nobody else uses."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's own


def stream_at(address: int, device: torch.device) -> torch.cuda.Stream:
    """The stream of this address; 0 is that of the device's default one."""
    if not address:
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(address, device=device)  # type: ignore[no-untyped-call]  # torch's own


WATCHERS: tuple[Callable[[], int], ...] = (torch._C._len_torch_dispatch_stack,)
"""How many modes see each operator that is called (counters of operations, tracers)."""
MAKING_WATCHERS: tuple[Callable[[], bool], ...] = (torch._C._is_any_autocast_enabled,)
"""Who changes what an operator makes besides."""
_guards: Any = torch._C._dynamo.guards  # Any: its functions have no types
FAST_EMPTY: dict[str, Callable[..., Tensor]] = {
    "cpu": _guards._empty_strided_cpu,
    "cuda": _guards._empty_strided_cuda,
}
"""`(sizes, strides, dtype)` to a tensor on the current device of a type: what torch's own compiled code calls."""
FAST_VIEW: Callable[..., Tensor] = _guards._reinterpret_tensor
"""`(x, sizes, strides, offset)`, the offset in elements from the first one of `x`."""


def matmul_settings() -> tuple[Callable[[], Hashable], ...]:
    """All settings of torch that results of a matmul on a GPU depend on. The first one raises RuntimeError where torch's newer
    settings of precision contradict it."""
    return (
        torch._C._get_cublas_allow_tf32,
        torch._C._get_cublas_allow_fp16_reduced_precision_reduction,
        torch._C._get_cublas_allow_bf16_reduced_precision_reduction,
        torch._C._get_cublas_allow_fp16_accumulation,
        torch._C._get_deterministic_algorithms,
    )


def forget_workspaces() -> None:
    """cuBLAS gets new workspaces where torch is asked for a matmul; the memory of those before goes back to the pools that they are of."""
    torch._C._cuda_clearCublasWorkspaces()


def has_memory_pools() -> bool:
    """Whether torch's allocator on GPUs has pools that callers make: cudaMallocAsync has none."""
    return torch.cuda.get_allocator_backend() == "native"


# Any: torch gives its class no types
def memory_pool(device: torch.device, *, is_reserve: bool = False) -> Any:
    """A pool of memory, which its blocks return to as long as it lives. Where it `is_reserve`, others are given what is free in it when the
    device has no memory left."""
    with torch.cuda.device(device):
        return torch.cuda.MemPool(use_on_oom=is_reserve)


def using_pool(pool: Any, device: torch.device) -> AbstractContextManager[None]:
    """This thread allocates from a pool."""
    found: AbstractContextManager[None] = torch.cuda.use_mem_pool(pool, device)
    return found


def refuse_multicast() -> None:
    """Torch makes no multicast object of symmetric memory from here on: no operator that programs call needs one, and one that is left
    over can keep the devices of a host from working. It asks the environment at each allocation."""
    os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"


def torch_operators(namespace: str) -> Any:
    """`torch.ops.<namespace>`, with those that torch registers in Python only where somebody asks for them."""
    if namespace == symmetric_operators.NAMESPACE and torch.distributed.is_available():
        refuse_multicast()
        importlib.import_module("torch.distributed._symmetric_memory")
    return getattr(torch.ops, namespace)  # operators are found by name


def empty_symmetric(
    sizes: Sequence[int],
    strides: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    group: str,
    id: int,
) -> Tensor:
    """A tensor in memory that the processes of a group share; an id has the same memory in each call, and holds one tensor
    at a time."""
    refuse_multicast()
    allocate: Any = torch._C._distributed_c10d._SymmetricMemory.empty_strided_p2p
    made: Tensor = allocate(sizes, strides, dtype, device, group, id)
    return made


def allows_multicast() -> bool:
    """Whether NCCL, as its environment says, makes multicast objects of memory that is registered with it."""
    return os.environ.get("NCCL_NVLS_ENABLE") != "0"


def group_backend(group: Any, device: torch.device) -> Any:
    """The group's backend on a device, if it can register memory; else None."""
    try:
        backend = group._get_backend(device)
    except RuntimeError:  # the group has none for such devices
        return None
    return backend if hasattr(backend, "register_mem_pool") else None


def connect(backend: Any, device: torch.device) -> None:
    """Makes the communicator, where no collective has made it yet: all processes of the group do so together."""
    if not backend._is_initialized():
        backend.eager_connect_single_device(device)


def new_pool(backend: Any, device: torch.device) -> Any:
    """A memory pool over what the backend allocates for registration."""
    with torch.cuda.device(device):
        return torch.cuda.MemPool(backend.mem_allocator)


def empty_in_pool(
    pool: Any, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """A tensor in memory of the pool."""
    with torch.cuda.use_mem_pool(pool, device):
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)


def pool_segments(pool: Any) -> list[int]:
    """The bytes of each piece of memory that a pool has from its allocator."""
    return [segment["total_size"] for segment in pool.snapshot()]


_GROUPS = TorchGroups(torch)


def find_group(name: str) -> Any:
    """The process group that this process has registered under `name`; raises RuntimeError."""
    return _GROUPS.find(name)


def group_store(group: Any) -> Any:
    """The store that the processes of a group share."""
    return _GROUPS.store(group)


def program_groups(names: Sequence[str], device: str = "cpu", ranks: Sequence[Any] = ()) -> ProgramGroups:
    """What a program on this device does with its groups before each call; `ranks` are the fields of a `GroupRanks` each."""
    return ProgramGroups(_GROUPS, names, device, ranks)


def has_dispatch_modes() -> bool:
    """Whether something watches calls of operators: fake tensors, tracing, a profiler of ours or the user's."""
    return torch._C._len_torch_dispatch_stack() > 0


def is_overload(found: object) -> bool:
    """Whether something found under `torch.ops` can be called."""
    return isinstance(found, torch._ops.OpOverload)


def registered_symmetric(overload: torch._ops.OpOverload) -> tuple[str, ...]:
    """The arguments that a library has registered as symmetric memory (`torch.library.Library.register_symm_mem_args`)."""
    entry = simple_registry.singleton.find(overload.__qualname__)
    holder = getattr(entry, "symm_mem_args", None)  # not in all versions
    return () if holder is None else tuple(holder.get() or ())


def storage_key(tensor: Tensor) -> int:
    """The address of the C++ storage object, unique while the storage lives."""
    key: int = tensor.untyped_storage()._cdata
    return key

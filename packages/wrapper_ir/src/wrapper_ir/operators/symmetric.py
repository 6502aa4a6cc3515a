"""Which operators need symmetric memory, and which must not be given any.

A schema does not say where an argument lives. What torch's operators ask for is here, and a test compares the names with
the installed ones; `ExternDef.symmetric` says it of all operators of a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from wrapper_ir import ir
from wrapper_ir.operators.policy import called_names

NAMESPACE = "symm_mem"
"""The namespace of torch's operators over symmetric memory."""

_NEEDED = """
    _low_contention_all_gather_ce_multicast_out: out
    _rendezvous: tensor
    all_to_all_vdev: input out in_splits out_splits_offsets
    all_to_all_vdev_2d: input out in_splits out_splits_offsets
    all_to_all_vdev_2d_offset: input out in_splits_offsets out_splits_offsets
    get_remote_tensors: x
    memcpy_to_multicast_: symm_mem_out
    multi_root_tile_reduce: in_tiles out_tile
    multimem_all_gather_out: out
    multimem_all_reduce_: input
    multimem_one_shot_all_reduce: input
    multimem_one_shot_all_reduce_out: input
    multimem_one_shot_reduce_out: input
    nccl_all_to_all_nd: input
    nccl_get: tensor
    nccl_put: tensor
    nccl_put_with_signal: tensor
    nccl_reduce_scatter_offset: input
    nccl_wait_for_signal: sigpad
    nvshmem_all_to_all: input out
    nvshmem_broadcast: input
    nvshmem_get: tensor
    nvshmem_put: tensor
    nvshmem_put_with_signal: tensor sigpad
    nvshmem_wait_for_signal: sigpad
    one_shot_all_reduce: input
    one_shot_all_reduce_copy: symm_buffer
    one_shot_all_reduce_copy_out: symm_buffer
    one_shot_all_reduce_out: input
    reduce_scatter_out: input
    tile_reduce: in_tile out_tile
    two_shot_all_reduce_: input
    two_shot_all_reduce_out: input
"""


def _rows(text: str, prefix: str = "") -> Iterable[tuple[str, tuple[str, ...]]]:
    for line in text.strip().splitlines():
        name, _, arguments = line.strip().rpartition(": ")
        yield f"{prefix}{name}", tuple(arguments.split())


SYMMETRIC_ARGUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(dict(_rows(_NEEDED, f"{NAMESPACE}::")))
"""By operator (all its overloads), the arguments that other processes read or write directly. From torch's own
implementations (`torch/csrc/distributed/c10d/symm_mem`): those that they look up (`rendezvous`) and refuse when the
lookup finds nothing, and those that NVSHMEM takes as addresses of its symmetric heap. Not here is what works with any memory:
all other `_low_contention_*` and `fused_*` copy such an argument into memory of their own, outputs of `*_out` are written locally,
and `memset32_` and `stream_write_value32_` write one address. On two H200 with torch 2.11, each of the CUDA backend's refuses
ordinary memory there, and takes it for its other arguments."""

_WAITING = """
    multimem_all_gather_out multimem_all_reduce_ multimem_one_shot_all_reduce multimem_one_shot_all_reduce_out
    multimem_one_shot_reduce_out one_shot_all_reduce one_shot_all_reduce_copy one_shot_all_reduce_copy_out
    one_shot_all_reduce_out reduce_scatter_out two_shot_all_reduce_ two_shot_all_reduce_out
"""
WAITING = frozenset(f"{NAMESPACE}::{name}" for name in _WAITING.split())
"""Operators after which no other process reads or writes these arguments: their kernels end with a barrier of all processes
(`sync_remote_blocks` in `CUDASymmetricMemoryOps.cu`). Others put, get and signal."""

_WORKSPACE = """
    _low_contention_all_gather _low_contention_reduce_scatter fused_all_gather_matmul fused_all_gather_scaled_matmul
    fused_matmul_reduce_scatter fused_scaled_matmul_reduce_scatter
"""
WORKSPACE = frozenset(f"{NAMESPACE}::{name}" for name in _WORKSPACE.split())
"""Operators that take any memory, and communicate through symmetric memory that torch keeps for their group: one for all of them, as
large as the largest call needs it."""

_GIVE_UP = """
    aten::_resize_output_: self
    aten::record_stream: self
    aten::resize_: self
    aten::resize_as_: self
    aten::set_: self source
    aten::set_data: self new_data
    inductor::resize_storage_bytes_: variable
    prims::resize: a
    streams::record_stream: tensor
"""
GIVE_UP_STORAGE: Mapping[str, tuple[str, ...]] = MappingProxyType(dict(_rows(_GIVE_UP)))
"""By operator, the arguments whose storage it takes new memory for, hands to another tensor, or leaves to the allocator
of the device. Symmetric memory is not that allocator's: `record_stream` keeps nothing of it from being used again, and its
storage cannot be resized, as torch says."""


def _looked_up(table: Mapping[str, tuple[str, ...]], schema: ir.OpSchema) -> tuple[str, ...]:
    """The arguments that a table names for an operator, or for the one that it runs, and that the schema has."""
    names = {n for called in called_names(schema.name) for n in table.get(called.partition(".")[0], ())}
    return tuple(a.name for a in schema.args if a.name in names and a.is_tensor) if names else ()


def needed_symmetric(schema: ir.OpSchema) -> tuple[str, ...]:
    """The arguments of an operator that are known to need symmetric memory, in the order of its schema."""
    return _looked_up(SYMMETRIC_ARGUMENTS, schema)


def needs_multicast(name: str) -> bool:
    """Whether the operator of this name works through a multicast object of its memory."""
    return name.startswith(f"{NAMESPACE}::") and ("multimem" in name or "multicast" in name)


def uses_workspace(schema: ir.OpSchema) -> bool:
    """Whether an operator communicates through symmetric memory that is none of its arguments."""
    return any(called.partition(".")[0] in WORKSPACE for called in called_names(schema.name))


def waits_for_all(schema: ir.OpSchema) -> bool:
    """Whether an operator is over for all processes when it is for this one."""
    return any(called.partition(".")[0] in WAITING for called in called_names(schema.name))


def gives_up(schema: ir.OpSchema) -> tuple[str, ...]:
    """The arguments of an operator that must not be symmetric memory, in the order of its schema."""
    return _looked_up(GIVE_UP_STORAGE, schema)


def missing_symmetric(declared: Iterable[str], schema: ir.OpSchema) -> str:
    """The first argument that is known to need symmetric memory and is not among those declared; '' for none."""
    stated = frozenset(declared)
    return next((name for name in needed_symmetric(schema) if name not in stated), "")

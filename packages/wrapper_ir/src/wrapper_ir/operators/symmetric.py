"""Operators that require symmetric memory, and operators that must not receive any.

A schema does not describe the memory of an argument. These tables list the requirements of torch's operators,
and a test compares their names with the installed torch; `ExternDef.symmetric` declares them for all
operators of a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from wrapper_ir import ir
from wrapper_ir.operators.policy import called_names

NAMESPACE = "symm_mem"
"""The namespace of torch's operators on symmetric memory."""

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
"""By operator (all its overloads), the arguments that other processes read or write directly.

The source is torch's implementation (`torch/csrc/distributed/c10d/symm_mem`): arguments that an operator
looks up (`rendezvous`) and refuses if the lookup fails, and those that NVSHMEM accesses in its symmetric
heap. Arguments in any memory are not listed: all other `_low_contention_*` and `fused_*` copy them into their
workspace, outputs of `*_out` are written locally, and `memset32_` and `stream_write_value32_` write one
address. Measured on two H200 with torch 2.11: each operator of the CUDA backend refuses ordinary memory for
these arguments, and accepts it for the others.
"""

_WAITING = """
    multimem_all_gather_out multimem_all_reduce_ multimem_one_shot_all_reduce multimem_one_shot_all_reduce_out
    multimem_one_shot_reduce_out one_shot_all_reduce one_shot_all_reduce_copy one_shot_all_reduce_copy_out
    one_shot_all_reduce_out reduce_scatter_out two_shot_all_reduce_ two_shot_all_reduce_out
"""
WAITING = frozenset(f"{NAMESPACE}::{name}" for name in _WAITING.split())
"""Operators after which no other process accesses these arguments: their kernels end with a barrier of all
processes (`sync_remote_blocks` in `CUDASymmetricMemoryOps.cu`). The other operators put, get and signal."""

_WORKSPACE = """
    _low_contention_all_gather _low_contention_reduce_scatter fused_all_gather_matmul
    fused_all_gather_scaled_matmul fused_matmul_reduce_scatter fused_scaled_matmul_reduce_scatter
"""
WORKSPACE = frozenset(f"{NAMESPACE}::{name}" for name in _WORKSPACE.split())
"""Operators that accept any memory and communicate through torch's symmetric workspace of the group, which
all of them share and which is as large as the largest call requires."""

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
"""By operator, the arguments whose storage it reallocates, moves to another tensor, or registers with the
device's allocator. Symmetric memory does not belong to that allocator: `record_stream` does not delay its
reuse, and torch refuses to resize its storage."""


def _looked_up(table: Mapping[str, tuple[str, ...]], schema: ir.OpSchema) -> tuple[str, ...]:
    """Returns the schema's tensor arguments that a table lists for the operator, or the one it runs."""
    names = {n for operator in called_names(schema.name) for n in table.get(operator.partition(".")[0], ())}
    return tuple(a.name for a in schema.args if a.name in names and a.is_tensor) if names else ()


def needed_symmetric(schema: ir.OpSchema) -> tuple[str, ...]:
    """Returns the arguments of an operator that require symmetric memory, in the order of its schema."""
    return _looked_up(SYMMETRIC_ARGUMENTS, schema)


def needs_multicast(name: str) -> bool:
    """Returns whether the operator of this name requires a multicast object of its memory."""
    return name.startswith(f"{NAMESPACE}::") and ("multimem" in name or "multicast" in name)


def uses_workspace(schema: ir.OpSchema) -> bool:
    """Returns whether an operator communicates through symmetric memory other than its arguments."""
    return any(operator.partition(".")[0] in WORKSPACE for operator in called_names(schema.name))


def waits_for_all(schema: ir.OpSchema) -> bool:
    """Returns whether an operator completes for all processes when it completes for this one."""
    return any(operator.partition(".")[0] in WAITING for operator in called_names(schema.name))


def gives_up(schema: ir.OpSchema) -> tuple[str, ...]:
    """Returns the arguments of an operator that must not be symmetric memory, in the order of its schema."""
    return _looked_up(GIVE_UP_STORAGE, schema)


def missing_symmetric(declared: Iterable[str], schema: ir.OpSchema) -> str:
    """Returns the first argument that requires symmetric memory but is not declared; '' if none."""
    names = frozenset(declared)
    return next((name for name in needed_symmetric(schema) if name not in names), "")

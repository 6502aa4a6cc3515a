"""Collectives that are finished when they return: one call of the process group each.

A functional collective costs two calls through torch's dispatcher and a table of what is in flight; on two processes with gloo, 71 us
for an all-reduce of 2 KiB, of which these take 17. They say that nobody waits in between (`asyncOp` is false): NCCL's work is then
queued on the current stream, without events for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from wrapper_ir_torch._compat import find_group, has_dispatch_modes

# Any in this file: process groups, their options and works, which torch leaves untyped or makes late
Group = Any


def finished_collective(name: str) -> Callable[..., Any]:
    """A function with the arguments of the functional collective of this name (`_c10d_functional::all_reduce`); what it returns
    needs no wait. Where something watches calls (a dispatch mode, a tensor of another class), it calls the operator, and waits."""
    run = FINISHED[name]
    operator = getattr(
        torch.ops._c10d_functional, name.rpartition("::")[2]
    ).default  # operators are found by name
    wait = torch.ops._c10d_functional.wait_tensor.default

    def call(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not has_dispatch_modes() and _is_plain(tensors):
            return run(tensors, *args, **kwargs)
        made = operator(tensors, *args, **kwargs)
        return wait(made) if isinstance(made, Tensor) else [*map(wait, made)]

    return call


def _is_plain(tensors: Tensor | Sequence[Tensor]) -> bool:
    """Whether the group can be given the tensors themselves: it takes no subclasses, and complex numbers only as pairs."""
    if type(tensors) is Tensor:
        return not tensors.is_complex()
    return not isinstance(tensors, Tensor) and all(map(_is_plain, tensors))


def _end(work: Any) -> None:
    """Some groups return nothing where nobody waits in between."""
    if work is not None:
        work.wait()


@lru_cache(maxsize=256)
def _options(kind: str, reduce_op: str = "", root: int = -1) -> Any:
    """Options of torch's class `kind`, which calls only read."""
    from torch.distributed import distributed_c10d  # only in a torch that has it

    made = getattr(distributed_c10d, kind)()
    made.asyncOp = False
    if reduce_op:
        made.reduceOp = getattr(distributed_c10d.ReduceOp, reduce_op.upper())
    if root >= 0:
        made.rootRank = root
    return made


def _all_reduce_(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    _end(find_group(group_name).allreduce([input], _options("AllreduceOptions", reduce_op)))
    return input


def _all_reduce(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    return _all_reduce_(_copy(input), reduce_op, group_name)


def _all_reduce_coalesced_(inputs: list[Tensor], reduce_op: str, group_name: str) -> list[Tensor]:
    options = _options("AllreduceCoalescedOptions", reduce_op)
    _end(find_group(group_name).allreduce_coalesced(inputs, options))
    return inputs


def _all_reduce_coalesced(inputs: list[Tensor], reduce_op: str, group_name: str) -> list[Tensor]:
    return _all_reduce_coalesced_([*map(_copy, inputs)], reduce_op, group_name)


def _broadcast_(input: Tensor, src: int, group_name: str) -> Tensor:
    _end(find_group(group_name).broadcast([input], _options("BroadcastOptions", "", src)))
    return input


def _broadcast(input: Tensor, src: int, group_name: str) -> Tensor:
    return _broadcast_(_copy(input), src, group_name)


def _all_gather_out(input: Tensor, group_size: int, group_name: str, *, out: Tensor) -> Tensor:
    _end(find_group(group_name)._allgather_base(out, input, _options("AllgatherOptions")))
    return out


def _all_gather(input: Tensor, group_size: int, group_name: str) -> Tensor:
    return _all_gather_out(input, group_size, group_name, out=_empty(input, input.size(0) * group_size))


def _all_gather_coalesced(inputs: list[Tensor], group_size: int, group_name: str) -> list[Tensor]:
    made = [_empty(x, x.size(0) * group_size) for x in inputs]
    options = _options("AllgatherOptions")
    _end(find_group(group_name).allgather_into_tensor_coalesced(made, inputs, options))
    return made


def _reduce_scatter_out(
    input: Tensor, reduce_op: str, group_size: int, group_name: str, *, out: Tensor
) -> Tensor:
    options = _options("ReduceScatterOptions", reduce_op)
    _end(find_group(group_name)._reduce_scatter_base(out, input, options))
    return out


def _reduce_scatter(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    out = _empty(input, input.size(0) // group_size)
    return _reduce_scatter_out(input, reduce_op, group_size, group_name, out=out)


def _reduce_scatter_coalesced(
    inputs: list[Tensor], reduce_op: str, group_size: int, group_name: str
) -> list[Tensor]:
    made = [_empty(x, x.size(0) // group_size) for x in inputs]
    options = _options("ReduceScatterOptions", reduce_op)
    _end(find_group(group_name).reduce_scatter_tensor_coalesced(made, inputs, options))
    return made


def _all_to_all(
    input: Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int], group_name: str
) -> Tensor:
    out = _empty(input, sum(output_split_sizes))
    sizes = [*output_split_sizes], [*input_split_sizes]
    _end(find_group(group_name).alltoall_base(out, input, *sizes, _options("AllToAllOptions")))
    return out


def _copy(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def _empty(like: Tensor, rows: int) -> Tensor:
    return torch.empty((rows, *like.shape[1:]), dtype=like.dtype, device=like.device)


_CALLS: Mapping[str, Callable[..., Any]] = {
    "all_gather_into_tensor": _all_gather,
    "all_gather_into_tensor_coalesced": _all_gather_coalesced,
    "all_gather_into_tensor_out": _all_gather_out,
    "all_reduce": _all_reduce,
    "all_reduce_": _all_reduce_,
    "all_reduce_coalesced": _all_reduce_coalesced,
    "all_reduce_coalesced_": _all_reduce_coalesced_,
    "all_to_all_single": _all_to_all,
    "broadcast": _broadcast,
    "broadcast_": _broadcast_,
    "reduce_scatter_tensor": _reduce_scatter,
    "reduce_scatter_tensor_coalesced": _reduce_scatter_coalesced,
    "reduce_scatter_tensor_out": _reduce_scatter_out,
}
FINISHED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {f"_c10d_functional::{name}": call for name, call in _CALLS.items()}
)
"""The calls of `wrapper_ir.operators.collectives.FINISHABLE`, by operator."""

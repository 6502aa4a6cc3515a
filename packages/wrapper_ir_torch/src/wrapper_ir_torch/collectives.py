"""Collectives that are complete on return: one call of the process group each.

A functional collective costs two calls through torch's dispatcher and a table of collectives in flight: 71 us
for an all-reduce of 2 KiB on two processes with gloo, of which these functions need 17. They set `asyncOp` to
false, so NCCL queues its work on the current stream, without events for another stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wrapper_ir_torch._compat import find_group, has_dispatch_modes

if TYPE_CHECKING:  # not in all builds of torch
    from torch._C._distributed_c10d import Work

Tensors = Tensor | list[Tensor]


def finished_collective(name: str) -> Callable[..., Tensors]:
    """Returns a function with the arguments of the functional collective of this name
    (`_c10d_functional::all_reduce`). Its results need no wait. If a dispatch mode is active or an operand is
    a tensor subclass, it calls the operator and waits."""
    run = FINISHED[name]
    operator = getattr(
        torch.ops._c10d_functional, name.rpartition("::")[2]
    ).default  # operators are found by name

    def call(tensors: Tensors, *args: object, **kwargs: object) -> Tensors:
        if not has_dispatch_modes() and _is_plain(tensors):
            return run(tensors, *args, **kwargs)
        results: Tensors = operator(tensors, *args, **kwargs)
        return _wait(results) if isinstance(results, Tensor) else [*map(_wait, results)]

    return call


def _wait(tensor: Tensor) -> Tensor:
    result: Tensor = torch.ops._c10d_functional.wait_tensor.default(tensor)
    return result


def _is_plain(tensors: Tensor | Sequence[Tensor]) -> bool:
    """Returns whether the group accepts the tensors directly. It accepts no subclasses, and complex numbers
    only as pairs."""
    if type(tensors) is Tensor:
        return not tensors.is_complex()
    return not isinstance(tensors, Tensor) and all(map(_is_plain, tensors))


def _end(work: Work | None) -> None:
    """Waits for the work. Some groups return None for synchronous calls."""
    if work is not None:
        work.wait()


# Any: a class of options that `kind` names
@lru_cache(maxsize=256)
def _options(kind: str, reduce_op: str = "", root: int = -1) -> Any:
    """Returns options of torch's class `kind`, which calls do not change."""
    from torch.distributed import distributed_c10d  # not in all builds of torch

    options = getattr(distributed_c10d, kind)()
    options.asyncOp = False
    if reduce_op:
        options.reduceOp = getattr(distributed_c10d.ReduceOp, reduce_op.upper())
    if root >= 0:
        options.rootRank = root
    return options


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
    outputs = [_empty(x, x.size(0) * group_size) for x in inputs]
    options = _options("AllgatherOptions")
    _end(find_group(group_name).allgather_into_tensor_coalesced(outputs, inputs, options))
    return outputs


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
    outputs = [_empty(x, x.size(0) // group_size) for x in inputs]
    options = _options("ReduceScatterOptions", reduce_op)
    _end(find_group(group_name).reduce_scatter_tensor_coalesced(outputs, inputs, options))
    return outputs


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


_CALLS: Mapping[str, Callable[..., Tensors]] = {
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
FINISHED: Mapping[str, Callable[..., Tensors]] = MappingProxyType(
    {f"_c10d_functional::{name}": call for name, call in _CALLS.items()}
)
"""The functions for `wrapper_ir.operators.collectives.FINISHABLE`, by operator."""

"""Functions of storages: ends, windows of another element type, alignment, sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from fx_converter._compat import has_effect, is_watched
from fx_converter.nodes import Value
from wrapper_ir.errors import ExecutionError
from wrapper_ir_torch import FAST_VIEW, storage_key


@has_effect
def free(*tensors: Tensor) -> None:
    """Marks the last use of a storage. Code that runs the graph drops its references to the arguments, which
    frees the memory."""


def same(x: Tensor) -> Tensor:
    """Returns the tensor under another name."""
    return x


@has_effect
def fill_zero(x: Tensor) -> Tensor:
    """Fills the tensor with zeros and returns it."""
    return x.zero_()


def window(
    x: Tensor, dtype: torch.dtype, sizes: Sequence[int], strides: Sequence[int], offset: int
) -> Tensor:
    """Returns a tensor of another element type over the same storage, `offset` bytes after the first element
    of `x`."""
    size = dtype.itemsize
    start = x.storage_offset() * x.element_size() + offset
    if isinstance(x, FakeTensor) or is_watched():
        flat = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
        return flat.view(dtype).as_strided(sizes, strides, start // size)
    is_bytes = x.dtype is torch.uint8 and x.dim() == 1 and x.is_contiguous()
    if is_bytes and not (x.numel() % size or start % size or offset % size):
        return FAST_VIEW(x.view(dtype), tuple(sizes), tuple(strides), offset // size)  # a third of the time
    empty = torch.empty(0, dtype=dtype, device=x.device)
    return empty.set_(x.untyped_storage(), start // size, sizes, strides)


def align(x: Tensor, alignment: int) -> Tensor:
    """Returns `x` if its address is a multiple of `alignment` bytes, else a copy, which torch's allocators
    align. In a trace it always copies, because the addresses of later tensors are unknown."""
    if isinstance(x, FakeTensor) or is_watched() or x.data_ptr() % alignment:
        return _copied(x)
    return x


def _copied(x: Tensor) -> Tensor:
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device).copy_(x)


@has_effect
def resize_storage(x: Tensor, nbytes: int) -> None:
    """Resizes the storage under `x`."""
    x.untyped_storage().resize_(nbytes)


@has_effect
def set_storage(x: Tensor, source: Tensor) -> None:
    """Makes `x` a view of `source`, for all references to it."""
    x.set_(source)  # type: ignore[call-overload]  # torch's stubs want a storage


@has_effect
def set_like(x: Tensor, source: Tensor) -> None:
    """Calls `set_storage`, for graphs that no program proves. Raises ExecutionError WIR927 unless the tensors
    have the same sizes, strides and dtype, which users of `x` rely on."""
    if x.dtype != source.dtype or x.shape != source.shape or _strides(x) != _strides(source):
        declared, actual = (
            f"{y.dtype} of sizes {list(y.shape)} and strides {list(y.stride())}" for y in (x, source)
        )
        raise ExecutionError("WIR927", f"a tensor of {declared} is given the memory of {actual}")
    set_storage(x, source)


def _strides(x: Tensor) -> list[int]:
    """Returns the strides that determine the positions of elements."""
    return [] if 0 in x.shape else [step for size, step in zip(x.shape, x.stride()) if size != 1]


def unshared(results: Sequence[Value], others: Sequence[Value]) -> list[Value]:
    """Returns `results` with separate storages. Results that share a storage with `others`, or with an
    earlier result, are copied."""
    storages = {storage_key(x) for x in others if isinstance(x, Tensor)}
    copies: list[Value] = []
    for x in results:
        if isinstance(x, Tensor):
            if storage_key(x) in storages:
                x = _copied(x)
            storages.add(storage_key(x))
        copies.append(x)
    return copies

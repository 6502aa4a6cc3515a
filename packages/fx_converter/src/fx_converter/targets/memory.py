"""Storage: ends, windows of another element type, alignment, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from fx_converter._compat import has_effect, is_watched
from wrapper_ir.errors import ExecutionError
from wrapper_ir_torch import FAST_VIEW, storage_key


@has_effect
def free(*tensors: Tensor) -> None:
    """The last use of a storage: whoever runs the graph lets go of what is passed, and its memory is released."""


def same(x: Tensor) -> Tensor:
    """The same tensor under another name."""
    return x


@has_effect
def fill_zero(x: Tensor) -> Tensor:
    """The same tensor, with zeros in it."""
    return x.zero_()


def window(
    x: Tensor, dtype: torch.dtype, sizes: Sequence[int], strides: Sequence[int], offset: int
) -> Tensor:
    """A tensor of another element type over the same storage, `offset` bytes after the first element of `x`."""
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
    """`x` where its address is a multiple of `alignment` bytes, else a copy, which torch's allocators align. While a graph is
    traced, nobody knows where later tensors will lie: it always copies."""
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
    """Makes `x` a view of `source`, for every holder."""
    x.set_(source)  # type: ignore[call-overload]  # torch's stubs want a storage


@has_effect
def set_like(x: Tensor, source: Tensor) -> None:
    """As `set_storage`, for graphs that no program proves. Raises ExecutionError WIR927 unless the tensors have the same sizes,
    strides and dtype: what uses `x` afterwards relies on them."""
    if x.dtype != source.dtype or x.shape != source.shape or _strides(x) != _strides(source):
        declared, left = (
            f"{y.dtype} of sizes {list(y.shape)} and strides {list(y.stride())}" for y in (x, source)
        )
        raise ExecutionError("WIR927", f"a tensor of {declared} is given the memory of {left}")
    set_storage(x, source)


def _strides(x: Tensor) -> list[int]:
    """Those that say where elements are."""
    return [] if 0 in x.shape else [step for size, step in zip(x.shape, x.stride()) if size != 1]


# Any: tensors and numbers
def unshared(results: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """`results` with storages of their own: what shares one with `others`, or with an earlier result, is copied."""
    taken = {storage_key(x) for x in others if isinstance(x, Tensor)}
    found: list[Any] = []
    for x in results:
        if isinstance(x, Tensor):
            if storage_key(x) in taken:
                x = _copied(x)
            taken.add(storage_key(x))
        found.append(x)
    return found

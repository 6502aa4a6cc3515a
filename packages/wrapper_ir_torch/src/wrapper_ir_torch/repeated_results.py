"""Results that an operator allocates: their layout in their storages, and a function that allocates the same
layout again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wrapper_ir_torch._compat import FAST_EMPTY, FAST_VIEW, storage_key

_MOST_STORAGES = 8
_MOST_BYTES = 1 << 23
"""For larger results the device is slower than the host, and recordings contain several copies of each."""


@dataclass(frozen=True, slots=True)
class _Window:
    """A tensor in one of the storages on the device. Sizes, strides and offset are in elements."""

    storage: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    offset: int

    def fills(self, nbytes: int) -> bool:
        """Returns whether a tensor of these sizes and strides fills a storage of `nbytes` bytes."""
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        return self.offset == 0 and 0 not in self.sizes and (last + 1) * self.dtype.itemsize == nbytes


@dataclass(frozen=True, slots=True)
class _Other:
    """A tensor that no kernel reads or writes: without elements, or on another device."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class _Value:
    """A number, or None."""

    value: object


_Part = _Window | _Other | _Value


@dataclass(frozen=True, slots=True)
class Results:
    """The layout of the results of one call. Calls with equal operands have equal layouts."""

    parts: tuple[_Part, ...]
    storages: tuple[int, ...]
    """The bytes of each storage."""
    device: torch.device

    def begins(self, results: Sequence[object]) -> tuple[int, ...] | None:
        """Returns the addresses of the storages of another call's results, or None if their layout differs.
        Results that are on another device here may be on this device in the other call: torch keeps numbers
        on the device while it records."""
        if len(results) != len(self.parts):
            return None
        spans: dict[int, tuple[int, int]] = {}
        for part, result in zip(self.parts, results, strict=True):
            if isinstance(part, _Window):
                if not isinstance(result, Tensor) or result.device != self.device:
                    return None
                storage = result.untyped_storage()
                span = (storage.data_ptr(), storage.nbytes())
                if _window(result, part.storage) != part or spans.setdefault(part.storage, span) != span:
                    return None
            elif isinstance(part, _Value) and part.value != result:
                return None
        sizes = tuple(spans[number][1] for number in range(len(spans)))
        is_apart = len({begin for begin, _ in spans.values()}) == len(spans)
        return tuple(spans[n][0] for n in range(len(spans))) if sizes == self.storages and is_apart else None

    # Any: tensors, numbers and None, as the operator returns them
    def maker(self) -> Callable[[], tuple[Any, ...]]:
        """Returns a function that allocates results of this layout. It returns a tuple of the results, then a
        tensor at the start of each storage."""
        bases: list[Callable[[], Tensor]] = []
        whole: set[int] = set()
        for number, nbytes in enumerate(self.storages):
            windows = [p for p in self.parts if isinstance(p, _Window) and p.storage == number]
            first = windows[0]
            if len(windows) == 1 and first.fills(nbytes):
                whole.add(number)
                bases.append(_empty(first.sizes, first.strides, first.dtype, self.device))
            else:
                bases.append(_empty((nbytes // first.dtype.itemsize,), (1,), first.dtype, self.device))
        parts = [_part(part, whole) for part in self.parts]

        def make() -> tuple[object, ...]:
            storages = [base() for base in bases]
            return (tuple([part(storages) for part in parts]), *storages)

        return make


def described(results: object, device: torch.device) -> Results | None:
    """Returns the layout of the results of a call. Returns None if it cannot be allocated again, because of
    autograd for instance, or if it is too large to benefit."""
    if not isinstance(results, tuple) or any(isinstance(r, Tensor) and r.requires_grad for r in results):
        return None
    parts: list[_Part] = []
    storages: dict[int, tuple[int, torch.dtype]] = {}
    for result in results:
        if not isinstance(result, Tensor):
            parts.append(_Value(result))
        elif result.device != device or not result.numel():
            parts.append(_Other(tuple(result.shape), tuple(result.stride()), result.dtype, result.device))
        else:
            key, entry = storage_key(result), (result.untyped_storage().nbytes(), result.dtype)
            if storages.setdefault(key, entry) != entry:  # a storage is allocated as elements of one type
                return None
            parts.append(_window(result, list(storages).index(key)))
    sizes = tuple(nbytes for nbytes, _ in storages.values())
    is_fine = (
        0 < len(sizes) <= _MOST_STORAGES
        and sum(sizes) <= _MOST_BYTES
        and all(nbytes % dtype.itemsize == 0 for nbytes, dtype in storages.values())
        and all(isinstance(part.value, int | None) for part in parts if isinstance(part, _Value))
    )
    return Results(tuple(parts), sizes, device) if is_fine else None


def _window(result: Tensor, storage: int) -> _Window:
    layout = tuple(result.shape), tuple(result.stride())
    return _Window(storage, *layout, result.dtype, int(result.storage_offset()))


def _empty(
    sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> Callable[[], Tensor]:
    """Returns a function that allocates a tensor on the device, by torch's fast path if that device is
    current."""
    fast, index = FAST_EMPTY.get(device.type), device.index

    def slow() -> Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)

    if fast is None or index is None:
        return slow
    empty = fast

    def allocate() -> Tensor:
        tensor = empty(sizes, strides, dtype)
        return tensor if tensor.get_device() == index else slow()

    return allocate


def _part(part: _Part, whole: set[int]) -> Callable[[list[Tensor]], object]:
    if isinstance(part, _Value):
        value = part.value
        return lambda storages: value
    if isinstance(part, _Other):
        empty = _empty(part.sizes, part.strides, part.dtype, part.device)
        return lambda storages: empty()
    number, sizes, strides, offset = part.storage, part.sizes, part.strides, part.offset
    if number in whole:
        return lambda storages: storages[number]
    return lambda storages: FAST_VIEW(storages[number], sizes, strides, offset)

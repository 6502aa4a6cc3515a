"""Finds constants that overlap in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from wrapper_ir import ir

_ALIGNMENT = 64
"""Shared bytes begin at a multiple of this in their storage, so that each constant keeps its alignment."""


@dataclass(frozen=True, slots=True)
class SharedBytes:
    """Overlapping constants (`tensors`), the byte offset of each, and all bytes that they cover (`flat`)."""

    tensors: tuple[ir.Value, ...]
    offsets: tuple[int, ...]
    flat: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Window:
    """The bytes from `start` to `end` of a storage."""

    start: int
    end: int
    value: ir.Value
    storage: torch.UntypedStorage
    device: torch.device


def overlapping(tensors: Mapping[ir.Value, torch.Tensor]) -> Iterator[SharedBytes]:
    """Yields groups of two or more constants whose bytes overlap, each from its first byte to its last.

    Tensors without separate bytes (empty tensors, lazy conjugates) are in no group.
    """
    windows: dict[tuple[object, ...], list[_Window]] = {}
    for value, tensor in tensors.items():
        if tensor.layout is torch.strided and tensor.numel() and not tensor.is_conj() and not tensor.is_neg():
            window = _window(value, tensor)
            place = value.type.device if ir.is_tensor(value) else None
            windows.setdefault((tensor.device, place, window.storage.data_ptr()), []).append(window)
    for group in windows.values():
        yield from _groups(sorted(group, key=lambda w: (w.start, w.end)))


def _window(value: ir.Value, tensor: torch.Tensor) -> _Window:
    count = 1 + sum((int(n) - 1) * int(s) for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    start = int(tensor.storage_offset()) * tensor.element_size()
    end = start + count * tensor.element_size()
    return _Window(start, end, value, tensor.untyped_storage(), tensor.device)


def _groups(windows: Sequence[_Window]) -> Iterator[SharedBytes]:
    run: list[_Window] = []
    for window in windows:
        if run and window.start >= max(w.end for w in run):
            yield from _shared(run)
            run = []
        run.append(window)
    yield from _shared(run)


def _shared(run: Sequence[_Window]) -> Iterator[SharedBytes]:
    if len(run) < 2:
        return
    first = run[0].start // _ALIGNMENT * _ALIGNMENT
    flat = torch.empty(0, dtype=torch.uint8, device=run[0].device)
    flat.set_(run[0].storage, first, (max(w.end for w in run) - first,), (1,))
    yield SharedBytes(tuple(w.value for w in run), tuple(w.start - first for w in run), flat)

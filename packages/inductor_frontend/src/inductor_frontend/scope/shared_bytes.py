"""Which constants lie over one another in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from wrapper_ir import ir

_ALIGNMENT = 64
"""Windows keep the alignment that they have in memory: shared bytes begin at a multiple of this in their storage."""


@dataclass(frozen=True, slots=True)
class SharedBytes:
    """Constants that overlap (`tensors`), the byte at which each begins, and all the bytes under them."""

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
    """Groups of two and more whose bytes overlap, each from its first byte to its last. Tensors without bytes of their own
    (empty ones, lazy conjugates) are in none."""
    windows: dict[tuple[object, ...], list[_Window]] = {}
    for value, tensor in tensors.items():
        if tensor.layout is torch.strided and tensor.numel() and not tensor.is_conj() and not tensor.is_neg():
            found = _window(value, tensor)
            place = value.type.device if ir.is_tensor(value) else None
            windows.setdefault((tensor.device, place, found.storage.data_ptr()), []).append(found)
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

"""Selects the saved tensors of a forward graph that a backward graph may overwrite."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wrapper_ir.analysis.overlap import Geometry, overlap


def donated_alone(inputs: Sequence[object], donated: Sequence[int]) -> list[int]:
    """Returns the positions in `donated` whose memory overlaps no other input.

    Autograd donates tensors that the forward graph created and does not return. Two of them may be
    overlapping views of a third tensor that is not saved: a write to one would corrupt the other.
    """
    if not donated:
        return []
    by_storage: dict[int, list[tuple[int, Tensor]]] = {}
    for position, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.layout == torch.strided:
            by_storage.setdefault(x.untyped_storage()._cdata, []).append((position, x))
    shared = {
        position
        for group in by_storage.values()
        for position, x in group
        for other, y in group
        if position != other and _may_overlap(x, y)
    }
    return [position for position in donated if position not in shared]


def _may_overlap(a: Tensor, b: Tensor) -> bool:
    one, other = _geometry(a), _geometry(b)
    return one is None or other is None or overlap(one, other)


def _geometry(x: Tensor) -> Geometry | None:
    """Returns the tensor's position in its storage; None if it is symbolic, because no guard may be added
    here."""
    sizes, strides, offset = tuple(x.shape), tuple(x.stride()), x.storage_offset()
    if isinstance(offset, torch.SymInt) or any(isinstance(n, torch.SymInt) for n in (*sizes, *strides)):
        return None
    return Geometry(storage=0, sizes=sizes, strides=strides, offset=offset, itemsize=x.element_size())

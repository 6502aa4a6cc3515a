"""Which of the tensors that a forward graph saved a backward graph may write over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wrapper_ir.analysis.overlap import Geometry, overlap


# Any: tensors, symbolic and plain numbers
def donated_alone(inputs: Sequence[Any], donated: Sequence[int]) -> list[int]:
    """The positions in `donated` whose memory is in no other input.

    Autograd donates what the forward graph made and does not return. Two such tensors may be overlapping views of a third one
    that is not saved: written over, one of them would spoil the other.
    """
    if not donated:
        return []
    by_storage: dict[int, list[int]] = {}
    for position, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.layout == torch.strided:
            by_storage.setdefault(x.untyped_storage()._cdata, []).append(position)
    shared = {
        one
        for group in by_storage.values()
        for one in group
        for other in group
        if one != other and _may_overlap(inputs[one], inputs[other])
    }
    return [position for position in donated if position not in shared]


def _may_overlap(a: Tensor, b: Tensor) -> bool:
    one, other = _geometry(a), _geometry(b)
    return one is None or other is None or overlap(one, other)


def _geometry(x: Tensor) -> Geometry | None:
    """Where it lies in its storage; None where symbols say: nobody may guard on them here."""
    sizes, strides, offset = tuple(x.shape), tuple(x.stride()), x.storage_offset()
    if isinstance(offset, torch.SymInt) or any(isinstance(n, torch.SymInt) for n in (*sizes, *strides)):
        return None
    return Geometry(storage=0, sizes=sizes, strides=strides, offset=offset, itemsize=x.element_size())

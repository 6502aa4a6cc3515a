"""Traceable `torch.combinations`: torch's decomposition indexes by a mask, which loses the size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey

from inductor_frontend.torch_patches.replaced import replaced_kernels
from inductor_frontend.torch_patches.table import COMBINATIONS

_KEY = DispatchKey.CompositeImplicitAutograd


def _combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Returns the elements at all ascending sequences of `r` positions; non-descending if
    `with_replacement`."""
    if x.dim() != 1 or r < 1:
        result: Tensor = COMBINATIONS.find()._op_dk(_KEY, x, r, with_replacement)
        return result
    n: Any = x.size(0)  # may be a symbol
    positions = torch.meshgrid([torch.arange(n, device=x.device)] * r, indexing="ij")
    mask = torch.ones([n] * r, dtype=torch.bool, device=x.device)
    for a, b in pairwise(positions):
        mask = mask & (a <= b if with_replacement else a < b)
    if not isinstance(n, int):
        return x[mask.nonzero()]
    count = math.comb(n + r - 1, r) if with_replacement else math.comb(n, r)
    return x[torch.nonzero_static(mask, size=count)]


@contextmanager
def traced_combinations() -> Iterator[None]:
    """Traces `torch.combinations` with a constant size for a constant number of elements, else an unbacked
    size."""
    with replaced_kernels((COMBINATIONS, _KEY, _combinations)):
        yield

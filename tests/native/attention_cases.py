"""Random calls of attention: shapes, layouts and masks, and their results in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
TOLERANCES = {torch.float32: 2e-5, torch.float64: 1e-12, torch.bfloat16: 3e-2, torch.float16: 8e-3}


@dataclass(frozen=True)
class Case:
    """Arguments of a call. Tensors are batch x heads x positions x numbers of a head."""

    query: Tensor
    key: Tensor
    value: Tensor
    is_causal: bool = False
    mask: Tensor | None = None
    scale: float | None = None

    def expected(self) -> tuple[Tensor, Tensor]:
        """The result and the logarithms of the sums; both are zero in rows without keys."""
        group = self.query.size(1) // max(self.key.size(1), 1)
        key, value = (t.double().repeat_interleave(group, 1) for t in (self.key, self.value))
        scale = 1 / math.sqrt(self.query.size(-1)) if self.scale is None else self.scale
        scores = self.query.double() @ key.mT * scale
        if self.mask is not None:
            added = torch.where(self.mask, 0.0, -math.inf) if self.mask.dtype is torch.bool else self.mask
            computed = torch.float64 if self.query.dtype is torch.float64 else torch.float32
            scores = (scores.to(computed) + added.to(computed)).double()
        if self.is_causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        weights = scores.softmax(-1).nan_to_num()
        sums = scores.logsumexp(-1)
        return weights @ value, sums.masked_fill(sums.isneginf(), 0.0)


def arranged(sizes: list[int], dtype: torch.dtype, layout: str) -> Tensor:
    """Random numbers in a layout."""
    made = torch.randn(sizes, dtype=torch.float64).to(dtype)
    match layout:
        case "positions first":
            return made.transpose(1, 2).contiguous().transpose(1, 2)
        case "transposed":
            return made.mT.contiguous().mT
        case "part":
            return torch.cat([made, made], -1)[..., : sizes[-1]]
        case "spread":
            return torch.stack([made, made], -1)[..., 0]
        case _:
            return made


LAYOUTS = st.sampled_from(["contiguous", "positions first", "transposed", "part", "spread"])
LENGTHS = st.sampled_from([1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 40, 64, 70])
KEYS = st.sampled_from([1, 2, 5, 16, 17, 33, 64, 100, 257, 600, 1100])


@st.composite
def masks(draw: st.DrawFn, sizes: list[int], dtype: torch.dtype) -> Tensor:
    """Masks that are broadcast in any dimensions."""
    shape = [draw(st.sampled_from([1, size])) for size in sizes][draw(st.sampled_from([0, 2])) :]
    mask = torch.randn(shape, dtype=torch.float64).to(draw(st.sampled_from([dtype, torch.float32])))
    kind = draw(st.sampled_from(["numbers", "hides", "bool", "finite"]))
    hides = torch.rand(shape) < 0.5
    if kind == "bool":
        return hides
    if kind != "numbers":
        mask[hides] = -math.inf if kind == "hides" else -30
    return mask


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Calls of any type, with few and many rows, and keys in several blocks."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from(DTYPES))
    batch, shared, group = (draw(st.integers(1, most)) for most in (3, 3, 4))
    queries, keys = draw(LENGTHS), draw(KEYS)
    width = draw(st.sampled_from([1, 3, 8, 16, 20, 32, 40, 64, 80, 128]))
    query = arranged([batch, shared * group, queries, width], dtype, draw(LAYOUTS))
    key, value = (arranged([batch, shared, keys, width], dtype, draw(LAYOUTS)) for _ in range(2))
    sizes = [batch, shared * group, queries, keys]
    mask = draw(masks(sizes, dtype)) if draw(st.booleans()) else None
    scale = draw(st.sampled_from([None, 0.3, -1.0, 0.0]))
    return Case(query, key, value, draw(st.booleans()), mask, scale)

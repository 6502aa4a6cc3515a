"""Patterns of sizes that may be 0, or whose sign only a guard knows: all fine in eager and under stock
torch.compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Any in this file: arguments and results of patterns.
Pattern = tuple[Callable[..., Any], tuple[Any, ...]]

CHECK: Any = torch._check  # torch leaves it untyped


def _random(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


@torch.library.custom_op("no_false_refusals::fill", mutates_args=["out"])
def fill(x: Tensor, out: Tensor) -> None:
    """Writes its argument."""
    out.copy_(x * 2)


@torch.library.custom_op("no_false_refusals::fill_all", mutates_args=["outs"])
def fill_all(x: Tensor, outs: list[Tensor]) -> None:
    """Writes a list of tensors."""
    for out in outs:
        out.copy_(x + 1)


A = _random(8, 6)
B = _random(5, 6)
M = torch.tensor([1, 0, 1, 1, 0, 0, 1, 0], dtype=torch.bool)


def slice_diff(a: Tensor, b: Tensor) -> Any:
    return a[: a.shape[0] - b.shape[0]] * 2


def ones_diff(a: Tensor, b: Tensor) -> Any:
    return torch.ones(a.shape[0] - b.shape[0]) + 1


def stack1_diff(a: Tensor, b: Tensor) -> Any:
    n = a.shape[0] - b.shape[0]
    return torch.stack([a[:n], a[:n] + 1], 1)


def cat1_diff(a: Tensor, b: Tensor) -> Any:
    n = a.shape[0] - b.shape[0]
    return torch.cat([a[:n], a[:n] + 1], 1)


def stack1_mask(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return torch.stack([y, y + 1], 1)


def cat1_mask(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return torch.cat([y, y + 1], 1)


def cat0_mask(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return torch.cat([y, a], 0)


def stack2_mask(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return torch.stack([y, y + 1], 2)


def stack1_nz(a: Tensor) -> Any:
    y = torch.nonzero(a > 0)
    return torch.stack([y, y + 1], 1)


def cat1_nz(a: Tensor) -> Any:
    y = torch.nonzero(a > 0)
    return torch.cat([y, y + 1], 1)


def stack1_item(a: Tensor, n: Tensor) -> Any:
    k: Any = n.item()
    y = torch.ones(k, 4)
    return torch.stack([y, y + 1], 1)


def cat1_item(a: Tensor, n: Tensor) -> Any:
    k: Any = n.item()
    CHECK(k >= 0)
    y = torch.ones(k, 4)
    return torch.cat([y, y + 1], 1)


def slice_item(a: Tensor, n: Tensor) -> Any:
    k: Any = n.item()
    CHECK(k >= 0)
    CHECK(k <= a.shape[0])
    return a[:k] + 1


def narrow_item(a: Tensor, n: Tensor) -> Any:
    k: Any = n.item()
    CHECK(k >= 0)
    CHECK(k <= a.shape[0])
    return a.narrow(0, 0, k) + 1


def pad_neg(a: Tensor) -> Any:
    return F.pad(a, (-1, -2)) + 1


def pad_neg_rows(a: Tensor) -> Any:
    return F.pad(a, (0, 0, -2, -1)) * 2


def pad_mixed(a: Tensor) -> Any:
    return F.pad(a, (-1, 2, 3, -2)) * 2


def stack_thirds(a: Tensor) -> Any:
    n = a.shape[0] // 3
    return torch.stack([a[:n], a[n : 2 * n], a[2 * n : 3 * n]], 1)


def cat_thirds(a: Tensor) -> Any:
    n = a.shape[0] // 3
    return torch.cat([a[:n], a[n : 2 * n], a[2 * n : 3 * n]], 1)


def split_thirds(a: Any) -> Any:
    return [x + 1 for x in a.split(a.shape[0] // 3)]


def chunk3(a: Any) -> Any:
    return torch.cat([x + 1 for x in a.chunk(3)], 1)


def diff_view(a: Tensor, b: Tensor) -> Any:
    n = a.shape[0] - b.shape[0]
    return a[:n].reshape(-1) * 2


def tail(a: Tensor) -> Any:
    return a[2:] * a[:-2]


def tail_cat(a: Tensor) -> Any:
    return torch.cat([a[2:], a[:-2]], 1)


def window(a: Tensor) -> Any:
    return torch.stack([a[:-2], a[1:-1], a[2:]], -1).sum(-1)


def mask_view(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return y.view(y.shape[0], 2, 3).transpose(1, 2).contiguous()


def mask_zeros(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return torch.zeros(y.shape[0], 3) + y[:, :3]


def mask_pad(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return F.pad(y, (1, 1))


def mask_mm(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return y @ a.t()


def mask_cat_stack(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return torch.cat([torch.stack([y, y], 1), torch.stack([y, y], 1)], 2)


def two_masks(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    z = a[~m]
    return torch.cat([y, z], 0) * 2


def mask_sort(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return torch.sort(y, 0).values


def unfold(a: Tensor) -> Any:
    return a.unfold(0, 3, 1) + 1


def as_strided(a: Tensor) -> Any:
    return a.as_strided((a.shape[0] - 1, 2), (a.shape[1], 1)) + 1


def empty_like_diff(a: Tensor, b: Tensor) -> Any:
    return a.new_zeros(a.shape[0] - b.shape[0], b.shape[1]) + 1


def diag(a: Tensor) -> Any:
    return torch.diagonal(a[:6]) * 2


def roll(a: Tensor) -> Any:
    return torch.roll(a, 1, 0)


def split_item(a: Tensor, s: Tensor) -> Any:
    k: Any = s[0].item()
    CHECK(k >= 0)
    CHECK(k <= a.shape[0])
    return a[:k] + 1, a[k:] + 1


def repeat_int(a: Tensor, s: Tensor) -> Any:
    y = torch.repeat_interleave(a, s, 0)
    return torch.cat([y, y], 1)


def arange_item(a: Tensor, n: Tensor) -> Any:
    k: Any = n.item()
    return torch.arange(k).unsqueeze(1) * torch.ones(4)


def uniq(a: Tensor) -> Any:
    u = torch.unique((a * 2).int())
    return torch.stack([u, u], 1)


def mask_stack_sum(a: Tensor, m: Tensor) -> Any:
    y = a[m]
    return torch.stack([y.sum(1), y.mean(1)], 1)


def index_put(a: Tensor, m: Tensor) -> Any:
    z = torch.zeros_like(a)
    z[m] = a[m] * 2
    return z


def pairwise(a: Tensor, b: Tensor) -> Any:
    return torch.cat([a[:, None].expand(-1, b.shape[0], -1), b[None].expand(a.shape[0], -1, -1)], -1)


def flip_cat(a: Tensor) -> Any:
    return torch.cat([a.flip(0), a[1:]], 0)


def half_split(a: Tensor) -> Any:
    n = a.shape[0] // 2
    x, y = a[:n], a[n : 2 * n]
    return torch.stack([x, y], 1).flatten(0, 1)


def empty_buffer(a: Tensor) -> Any:
    out = torch.empty_like(a)
    fill(a, out)
    return out + 1


def empty_buffers(a: Tensor) -> Any:
    outs = [torch.empty_like(a) for _ in range(3)]
    fill_all(a, outs)
    return outs[0] + outs[2]


def part_of_an_empty_buffer(a: Tensor) -> Any:
    out = torch.empty(a.shape[0] * 2, a.shape[1])
    fill(a, out[: a.shape[0]])
    return out[: a.shape[0]] * 2


PATTERNS: tuple[Pattern, ...] = (
    (slice_diff, (A, B)),
    (ones_diff, (A, B)),
    (stack1_diff, (A, B)),
    (cat1_diff, (A, B)),
    (stack1_mask, (A, M)),
    (cat1_mask, (A, M)),
    (cat0_mask, (A, M)),
    (stack2_mask, (A, M)),
    (stack1_nz, (A,)),
    (cat1_nz, (A,)),
    (stack1_item, (A, torch.tensor(3))),
    (cat1_item, (A, torch.tensor(3))),
    (slice_item, (A, torch.tensor(3))),
    (narrow_item, (A, torch.tensor(3))),
    (pad_neg, (A,)),
    (pad_neg_rows, (A,)),
    (pad_mixed, (A,)),
    (stack_thirds, (_random(9, 6),)),
    (cat_thirds, (_random(9, 6),)),
    (split_thirds, (_random(9, 6),)),
    (chunk3, (_random(9, 6),)),
    (diff_view, (A, B)),
    (tail, (A,)),
    (tail_cat, (A,)),
    (window, (A,)),
    (mask_view, (A, M)),
    (mask_zeros, (A, M)),
    (mask_pad, (A, M)),
    (mask_mm, (A, M)),
    (mask_cat_stack, (A, M)),
    (two_masks, (A, M)),
    (mask_sort, (A, M)),
    (unfold, (A,)),
    (as_strided, (A,)),
    (empty_like_diff, (A, B)),
    (diag, (A,)),
    (roll, (A,)),
    (split_item, (A, torch.tensor([2, 3, 3]))),
    (repeat_int, (A, torch.tensor([1, 0, 2, 1, 0, 0, 1, 0]))),
    (arange_item, (A, torch.tensor(3))),
    (uniq, (A,)),
    (mask_stack_sum, (A, M)),
    (index_put, (A, M)),
    (pairwise, (A, B)),
    (flip_cat, (A,)),
    (half_split, (A,)),
    (empty_buffer, (A,)),
    (empty_buffers, (A,)),
    (part_of_an_empty_buffer, (A,)),
)
"""Functions, with example arguments."""

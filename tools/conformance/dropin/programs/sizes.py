"""Sizes that come from masks, items, differences and multiplications."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tools.conformance.dropin.table import ints, mask, rand, table


def _item_slice(x: Tensor, k: Tensor) -> Tensor:
    return x[: k.item()] * 2


def _checked_item(x: Tensor, k: Tensor) -> Any:
    n: Any = k.item()
    torch._check(n >= 0)  # type: ignore[no-untyped-call]  # torch's
    torch._check(n <= x.shape[0])  # type: ignore[no-untyped-call]  # torch's
    return x.narrow(0, 0, n) + n


def _list_of_sizes(x: Tensor, sizes: Tensor) -> Any:
    return torch.split(x, sizes.tolist())


def _two_masks(x: Tensor) -> Tensor:
    a, b = x[x > 0], x[x <= 0]
    return torch.cat([a, b]).sum() + a.shape[0] * b.shape[0]


def _nonzero_count(x: Tensor) -> Any:
    n: Any = (x > 0).sum().item()
    return torch.ones(n).cumsum(0), n


def _of_length(n: int) -> tuple[Any, ...]:
    return rand(n, 6), torch.tensor(2)


PROGRAMS = table(
    mask_select=lambda x: x[x > 0] * 2,
    mask_rows=lambda x: x[x.sum(1) > 0].relu(),
    mask_columns=lambda x: x[:, x.sum(0) > 0] + 1,
    mask_then_view=lambda x: x[x.sum(1) > 0].view(-1),
    mask_then_transpose=lambda x: x[x.sum(1) > 0].t().contiguous(),
    mask_then_matmul=lambda x: x[x.sum(1) > 0] @ x.t(),
    mask_then_softmax=lambda x: x[x > 0].softmax(0),
    mask_then_sort=lambda x: x[x > 0].sort().values,
    mask_of_mask=lambda x: x[x > 0][x[x > 0] > 0.5] * 3,
    mask_nothing=lambda x: x[x > 1e9] + 1,
    mask_everything=lambda x: x[x < 1e9] + 1,
    masked_select=lambda x: torch.masked_select(x, x > 0).cumsum(0),
    masked_fill=lambda x: x.masked_fill(x > 0, 0.0),
    masked_scatter=lambda x: x.masked_scatter(x > 0, x.flatten()),
    two_masks=_two_masks,
    nonzero=lambda x: torch.nonzero(x > 0),
    nonzero_tuple=lambda x: torch.nonzero(x > 0, as_tuple=True),
    nonzero_count=_nonzero_count,
    where_one_argument=lambda x: torch.where(x > 0)[0] + 1,
    argwhere=lambda x: torch.argwhere(x > 0) * 2,
    unique=(lambda x: torch.unique(x), lambda n: (ints(n, 3),)),
    unique_inverse=(lambda x: torch.unique(x, return_inverse=True, return_counts=True), lambda n: (ints(n),)),
    unique_consecutive=(lambda x: torch.unique_consecutive(x), lambda n: (ints(n),)),
    bincount=(lambda x: torch.bincount(x, minlength=2), lambda n: (ints(n),)),
    repeat_interleave=(lambda x, k: torch.repeat_interleave(x, k, dim=0), lambda n: (rand(n, 2), ints(n))),
    item_slice=(_item_slice, _of_length),
    item_checked=(_checked_item, _of_length),
    item_arange=(lambda k: torch.arange(k.item()) * 2, lambda n: (torch.tensor(n),)),
    item_full=(lambda k: torch.full((k.item(), 3), 2.0), lambda n: (torch.tensor(n),)),
    item_zeros_matmul=(
        lambda a, b: torch.zeros(a.item(), b.item()) + 1,
        lambda n: (torch.tensor(n), torch.tensor(2)),
    ),
    item_difference=(
        lambda a, b: torch.ones(a.item() - b.item()),
        lambda n: (torch.tensor(n), torch.tensor(2)),
    ),
    item_expand=(lambda x, k: x[:1].expand(k.item(), 6) * 2, _of_length),
    item_repeat=(lambda x, k: x.repeat(k.item(), 1), _of_length),
    item_float=(lambda x, k: x * k.item(), lambda n: (rand(n), torch.tensor(1.5))),
    item_bool=(lambda x, k: x * k.item(), lambda n: (rand(n), torch.tensor(True))),
    item_index=(lambda x, k: x[k.item()], _of_length),
    item_returned=(lambda k: k.item() + 1, lambda n: (torch.tensor(n),)),
    item_of_sum=lambda x: torch.arange((x > 0).sum().item()),
    item_roll=(lambda x, k: x.roll(k.item(), 0), _of_length),
    tolist_split=(_list_of_sizes, lambda n: (rand(n, 2), torch.tensor([1, n - 1]))),
    tolist_sum=(lambda s: torch.zeros(sum(s.tolist())), lambda n: (torch.tensor([1, n]),)),
    tolist_cat=(lambda s: torch.cat([torch.ones(k) for k in s.tolist()]), lambda n: (torch.tensor([1, n]),)),
    size_arithmetic=lambda x: x.view(-1)[: x.shape[0] * 2] + x.numel(),
    size_matmul_view=lambda x: x.view(x.shape[0] * x.shape[1]).sum(),
    size_halved=lambda x: x[: x.shape[0] // 2] * 2,
    size_modulo=lambda x: x[x.shape[0] % 2 :] + 1,
    size_minimum=lambda x: x[: min(x.shape[0], 4)] + 1,
    size_maximum=lambda x: torch.zeros(max(x.shape[0], 5)) + 1,
    size_returned=lambda x: (x.shape, x.shape[0] * 2, x.numel(), x.stride()),
    size_division=lambda x: x / x.shape[0],
    size_float=lambda x: x * (x.shape[0] ** 0.5),
    size_branch=lambda x: x + 1 if x.shape[0] > 4 else x - 1,
    size_loop=lambda x: sum(x[i] for i in range(x.shape[0])),
    size_of_another=(lambda x, y: x[: y.shape[0]] + y, lambda n: (rand(n, 2), rand(n - 1, 2))),
    size_string=lambda x: (x + 1, f"{x.shape[0]} rows"),
    pad_to_multiple=lambda x: torch.nn.functional.pad(x, (0, 0, 0, -x.shape[0] % 4)),
    chunk=lambda x: x.chunk(2),
    split=lambda x: x.split(2),
    tensor_split=lambda x: torch.tensor_split(x, 3),
    stack_of_slices=lambda x: torch.stack([x[1:], x[:-1]]),
    diff=lambda x: x[1:] - x[:-1],
    unfold=lambda x: x.unfold(0, 2, 1) * 2,
    number_argument=(lambda x, k: x + k, lambda n: (rand(3), n)),
    float_argument=(lambda x, k: x + k, lambda n: (rand(3), n + 0.5)),
    mask_argument=(lambda x, m: x[m] * 2, lambda n: (rand(n), mask(n))),
    scatter_mask=(lambda x, m: x.index_put((m,), torch.tensor(0.0)), lambda n: (rand(n), mask(n))),
    empty_input=(lambda x: (x * 2).sum(0), lambda n: (rand(0, n),)),
)

"""Writes to inputs, to results, and through views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tools.conformance.dropin.table import ints, mask, rand, table

# Any in this file: results of any write.


def _on_copy(write: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        y = x.clone()
        write(y)
        return y

    return function


def _on_input(write: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        write(x)
        return x * 2

    return function


_WRITES: dict[str, Callable[[Tensor], Any]] = {
    "rows": lambda y: y[1:].zero_(),
    "every_other": lambda y: y[::2].fill_(1),
    "last_two": lambda y: y[-2:].neg_(),
    "middle": lambda y: y[1:3].mul_(2),
    "transposed": lambda y: y.t()[1:].add_(1),
    "assigned": lambda y: y.__setitem__(slice(1, None), 0),
    "assigned_itself": lambda y: y.__setitem__(slice(None), y),
    "copied_itself": lambda y: y.copy_(y),
    "shifted": lambda y: y[1:].copy_(y[:-1].clone()),
    "masked": lambda y: y.__setitem__(y > 0, 0),
    "indexed": lambda y: y.__setitem__(torch.tensor([0, 1]), 3),
    "accumulated": lambda y: y.index_put_((torch.tensor([0, 0]),), torch.ones(6), accumulate=True),
    "index_add": lambda y: y.index_add_(0, torch.tensor([0, 0]), torch.ones(2, 6)),
    "index_fill": lambda y: y.index_fill_(0, torch.tensor([1]), 7),
    "index_copy": lambda y: y.index_copy_(0, torch.tensor([1]), torch.ones(1, 6)),
    "scattered": lambda y: y.scatter_(1, torch.zeros(2, 6, dtype=torch.int64), 5.0),
    "scatter_added": lambda y: y.scatter_add_(0, torch.zeros(1, 6, dtype=torch.int64), torch.ones(1, 6)),
    "scatter_reduced": lambda y: y.scatter_reduce_(
        0, torch.zeros(1, 6, dtype=torch.int64), torch.ones(1, 6), "amax"
    ),
    "diagonal": lambda y: y.diagonal().add_(1),
    "select": lambda y: y[0].mul_(2),
    "column": lambda y: y[:, 0].fill_(2),
    "flat": lambda y: y.view(-1)[:3].fill_(2),
    "as_strided": lambda y: y.as_strided([2, 2], [2, 1], 0).mul_(2),
    "bits": lambda y: y.view(torch.int32).bitwise_and_(0x7FFFFFFF),
    "unsqueezed": lambda y: y.unsqueeze_(0),
    "transposed_itself": lambda y: y.t_(),
    "clamped": lambda y: y.clamp_(0, 1),
    "relu": lambda y: nn.functional.relu_(y),
    "triangular": lambda y: y.tril_(),
    "masked_filled": lambda y: y.masked_fill_(y > 0, 0),
    "sorted": lambda y: y.copy_(y.sort(1).values),
    "cumulated": lambda y: y.cumsum_(0),
    "unbound": lambda y: [part.add_(i) for i, part in enumerate(y.unbind(1))],
    "chunks": lambda y: [part.mul_(2) for part in y.chunk(2)],
}
_MORE = table(
    two_inputs=(lambda x, y: (x.add_(y), y.mul_(2))[0], lambda n: (rand(n), rand(n))),
    same_tensor_twice=(lambda x, y: x.add_(1) + y, lambda n: (lambda t: (t, t))(rand(n))),
    overlapping=(lambda x, y: x.add_(1)[:2] + y[:2], lambda n: (lambda t: (t[:n], t[1:]))(rand(n + 1))),
    swap=(lambda x, y: (lambda t: (x.copy_(y), y.copy_(t)))(x.clone()), lambda n: (rand(n), rand(n) + 1)),
    other_dtype=(lambda x, y: x.copy_(y), lambda n: (rand(n), ints(n))),
    broadcast_copy=(lambda x, y: x.copy_(y), lambda n: (rand(n, 3), rand(3))),
    out_argument=(lambda x, y: torch.add(x, 1, out=y), lambda n: (rand(n), rand(n))),
    list_of_inputs=(lambda xs: [x.add_(1) for x in xs], lambda n: ([rand(n), rand(n, 2)],)),
    dict_input=(lambda d: d["a"].mul_(d["b"]), lambda n: ({"a": rand(n), "b": rand(n)},)),
    foreach=(lambda xs: torch._foreach_add_(xs, 1), lambda n: ([rand(n), rand(n, 2)],)),
    returned_input=(lambda x: x.add_(1), lambda n: (rand(n),)),
    returned_view=(lambda x: x.add_(1)[1:], lambda n: (rand(n),)),
    nothing=(lambda x: None, lambda n: (rand(n),)),
    grad_result=(lambda x: (x * 2).add_(1).relu_(), lambda n: (rand(n, grad=True),)),
    grad_data=(lambda x: (x.data.mul_(2), x.sum())[1], lambda n: (rand(n, grad=True),)),
    no_grad_input=(torch.no_grad()(lambda x: x.mul_(2)), lambda n: (rand(n, grad=True),)),
    mask_fill=(lambda x, m: x.masked_fill_(m, 0).sum(), lambda n: (rand(n), mask(n))),
    resized=lambda x: x.clone().resize_(2, 2).fill_(1),
    zero_like=lambda x: (lambda y: (y[1:].copy_(x[:-1]), y)[1])(torch.zeros_like(x)),
)
PROGRAMS = {
    **table(**{f"copy_{name}": _on_copy(write) for name, write in _WRITES.items()}),
    **table(**{f"input_{name}": _on_input(write) for name, write in _WRITES.items()}),
    **_MORE,
}

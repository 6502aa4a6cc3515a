"""Errors that calls raise, and inputs that are refused."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tools.conformance.dropin.table import ints, rand, table

# Any in this file: arguments and results of any function.


def _raises(x: Tensor) -> Tensor:
    if x.shape[0] > 1:
        raise ValueError("too many rows")
    return x


def _asserts(x: Tensor) -> Tensor:
    assert x.shape[1] == 5, "columns"
    return x


def _checks(x: Tensor) -> Tensor:
    torch._check(x.shape[1] == 5, lambda: "columns")  # type: ignore[no-untyped-call]  # torch's
    return x + 1


def _checks_item(x: Tensor, k: Tensor) -> Any:
    n: Any = k.item()
    torch._check(n > 100, lambda: "a large number")  # type: ignore[no-untyped-call]  # torch's
    return x + n


def _asserts_data(x: Tensor) -> Tensor:
    torch._assert_async((x > 100).all(), "all large")
    return x + 1


def _asserts_item(x: Tensor) -> Tensor:
    assert (x > 100).all(), "all large"
    return x + 1


def _far(n: int) -> tuple[Any, ...]:
    return rand(n, 6), torch.tensor([0, 99])


def _item(n: int) -> tuple[Any, ...]:
    return rand(n, 6), torch.tensor(n + 90)


_SIN: Any = torch.sin  # its arguments are wrong

PROGRAMS = table(
    raised=_raises,
    asserted=_asserts,
    checked=_checks,
    checked_item=(_checks_item, _item),
    asserted_data=_asserts_data,
    asserted_item=_asserts_item,
    shapes=lambda x: x + torch.ones(5),
    matmul_shapes=lambda x: x @ x,
    view_size=lambda x: x.view(5, 5, 5),
    cat_sizes=lambda x: torch.cat([x, torch.ones(1, 7)]),
    index_far=(lambda x, i: x[i], _far),
    index_select_far=(lambda x, i: x.index_select(0, i), _far),
    gather_far=(lambda x, i: x.gather(0, i[:, None]), _far),
    scatter_far=(lambda x, i: x.scatter(0, i[:, None], 1.0), _far),
    index_put_far=(lambda x, i: x.index_put((i,), torch.tensor(1.0)), _far),
    embedding_far=(lambda x, i: torch.nn.functional.embedding(i, x), _far),
    narrow_far=(lambda x, k: x.narrow(0, k.item(), 1), _item),
    slice_far=(lambda x, k: x[k.item() :], _item),
    select_far=(lambda x, k: x[k.item()], _item),
    split_wrong=(lambda x, s: x.split(s.tolist()), lambda n: (rand(n), torch.tensor([1, 99]))),
    view_item=(lambda x, k: x.view(k.item(), -1), _item),
    item_of_many=lambda x: x.item(),
    zero_division=(lambda x: x // torch.zeros(3, dtype=torch.int64), lambda n: (ints(n, 3),)),
    zero_modulo=(lambda x: x % torch.zeros(3, dtype=torch.int64), lambda n: (ints(n, 3),)),
    cholesky_negative=lambda x: torch.linalg.cholesky(-torch.eye(6) + 0 * x[0]),
    singular=lambda x: torch.linalg.inv(torch.zeros(3, 3) + 0 * x[0, 0]),
    dtype_mismatch=lambda x: x @ x.double().t(),
    integer_mean=(lambda x: x.mean(), lambda n: (ints(n),)),
    leaf_in_place=(lambda x: x.add_(1), lambda n: (rand(n, grad=True),)),
    expanded_in_place=(lambda x: x.add_(1), lambda n: (rand(1, 6).expand(n, 6),)),
    cross_entropy_class=(
        lambda x, t: torch.nn.functional.cross_entropy(x, t),
        lambda n: (rand(n, 3), ints(n) + 7),
    ),
    multinomial_negative=lambda x: torch.multinomial(-x.abs() - 1, 1),
    attribute=lambda x: x.no_such_attribute,
    key=(lambda d: d["b"], lambda n: ({"a": rand(n)},)),
    index_python=(lambda xs: xs[3], lambda n: ([rand(n)],)),
    type_error=lambda x: x + "a",
    argument_count=lambda x: _SIN(x, x, x),
)

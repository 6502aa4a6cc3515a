"""The layout of an operator's results, and the allocation of equal ones: see
`wrapper_ir_torch.repeated_results`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from wrapper_ir_torch.repeated_results import described

CPU = torch.device("cpu")


def packed(size: int = 4) -> tuple[Any, ...]:
    """Results like attention's: two windows of one storage, a fresh result, one with gaps, numbers, and
    results without kernels.
    """
    storage = torch.zeros(2, size, 3)
    gaps = torch.zeros(size, 16)[:, :3]
    return (
        storage[0].t(), storage[1], torch.zeros(3, size).t(), gaps, torch.empty(2, 0), torch.empty((), device="meta"), 7, None,
    )  # fmt: skip


def layouts(results: tuple[Any, ...]) -> list[Any]:
    return [
        (r.shape, r.stride(), r.dtype, r.device, r.storage_offset()) if isinstance(r, Tensor) else r
        for r in results
    ]


def test_the_like_is_made() -> None:
    results = packed()
    found = described(results, CPU)
    assert found is not None
    made, *bases = found.maker()()
    assert layouts(made) == layouts(results)
    assert [base.data_ptr() for base in bases] == [made[i].untyped_storage().data_ptr() for i in (0, 2, 3)]
    assert [r.untyped_storage().nbytes() for r in made[:4]] == [
        r.untyped_storage().nbytes() for r in results[:4]
    ]
    made[0].fill_(1)
    made[1].fill_(3)
    assert made[0].untyped_storage().data_ptr() == made[1].untyped_storage().data_ptr()
    assert bases[0].tolist() == [1] * 12 + [3] * 12, "the first results lie in one storage"
    again = found.maker()()[0]
    assert again[0].data_ptr() != made[0].data_ptr()


def test_where_the_results_of_another_call_begin() -> None:
    found, others = described(packed(), CPU), packed()
    assert found is not None
    assert found.begins(others) == tuple(others[i].untyped_storage().data_ptr() for i in (0, 2, 3))
    on_the_device = (*others[:5], torch.empty(()), *others[6:])
    assert found.begins(on_the_device) is not None, "a number may be where kernels could read it"
    for wrong in (
        packed(5), others[:-1], (*others[:6], 8, None), (others[1], *others[1:]), (None, *others[1:]),
        (torch.zeros(2, 4, 3)[0].t(), *others[1:]), (others[0].to(torch.float16), *others[1:]),
        (*others[:2], others[0][:, :].clone().t(), *others[3:]),
    ):  # fmt: skip
        assert found.begins(wrong) is None


@pytest.mark.parametrize(
    "results",
    [
        torch.zeros(4),
        (7, None),
        (torch.zeros(1 << 24),),
        (torch.zeros(4), "text"),
        (torch.zeros(4, requires_grad=True),),
        tuple(torch.zeros(1) for _ in range(9)),
    ],
    ids=["no tuple", "no tensor", "too large", "text", "gradients", "too many"],
)
def test_results_whose_like_is_not_made(results: Any) -> None:
    assert described(results, CPU) is None


def test_a_storage_of_two_types() -> None:
    x = torch.zeros(8)
    assert described((x, x.view(torch.int32)), CPU) is None

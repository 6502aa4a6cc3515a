"""Bags of embeddings by the native runtime against torch: sums, means, maxima, their gradients, and norms of rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.native.database_calls import CompareCalls, Findings
from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance
INDICES = torch.tensor([1, 2, 4, 5, 4, 3])
SUM, MAX = 0, 2


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    """The family in a library."""
    return build_operators(("bags",), str(tmp_path_factory.mktemp("bags")))


def _call(operators: Operators, findings: Findings, name: str, *args: Any) -> Any:  # Any: an operator's
    with torch.no_grad(), CompareCalls(operators, findings, str(args[1:])):
        return getattr(torch.ops.aten, name)(*args)  # by string: a table's name


@pytest.mark.parametrize("has_last", [False, True])
@pytest.mark.parametrize("padding", [-1, 4])
@pytest.mark.parametrize("mode", [SUM, 1, MAX])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_bags(operators: Operators, dtype: torch.dtype, mode: int, padding: int, has_last: bool) -> None:
    findings = Findings()
    offsets = torch.tensor([0, 3, 3, 6] if has_last else [0, 3, 3])
    weights: list[Tensor | None] = [None, torch.randn(6).to(dtype)]
    for weight in (torch.randn(6, 3).to(dtype), torch.randn(3, 6).to(dtype).t()):
        for samples in weights if mode == SUM else weights[:1]:
            for kind in (torch.int64, torch.int32):
                arguments = (
                    weight,
                    INDICES.to(kind),
                    offsets.to(kind),
                    False,
                    mode,
                    False,
                    samples,
                    has_last,
                    padding,
                )
                _call(operators, findings, "_embedding_bag_forward_only", *arguments)
                made = _call(operators, findings, "_embedding_bag", *arguments)
            if dtype is torch.bfloat16:
                continue  # torch has no gradient of it
            begins, grad = offsets[:3], torch.randn_like(made[0])
            made = torch.ops.aten._embedding_bag(
                weight, INDICES, offsets, False, mode, False, samples, has_last, padding
            )
            given = (grad, INDICES, begins, *made[1:], 6, False, mode, False, samples, padding)
            _call(operators, findings, "_embedding_bag_backward", *given)
            if samples is not None:
                name = "_embedding_bag_per_sample_weights_backward"
                _call(operators, findings, name, grad, weight, INDICES, begins, made[1], mode, padding)
    assert not findings.wrong
    assert not findings.refused


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_limits_norms_of_rows(operators: Operators, power: float) -> None:
    findings = Findings()
    for weight in (torch.randn(6, 4), torch.randn(4, 6).t(), torch.randn(6, 4, dtype=torch.float64)):
        _call(operators, findings, "embedding_renorm", weight, INDICES, 1.0, power)
        _call(operators, findings, "embedding_renorm_", weight, INDICES.view(2, 3).int(), 1.0, power)
    assert not findings.wrong
    assert not findings.refused


@pytest.mark.parametrize(
    ("indices", "offsets", "text"),
    [
        ([7], [0], "index 7"),
        ([1, 2], [1], "does not begin at index 0"),
        ([1, 2], [0, 3], "exceed the indices"),
    ],
)
def test_refuses_by_name(operators: Operators, indices: list[int], offsets: list[int], text: str) -> None:
    with pytest.raises(NativeError, match=text) as caught:
        operators.call("aten::_embedding_bag", torch.ones(3, 2), torch.tensor(indices), torch.tensor(offsets))
    assert "aten::_embedding_bag" in str(caught.value)

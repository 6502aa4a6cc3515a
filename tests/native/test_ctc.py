"""Connectionist temporal classification in the native runtime: losses and gradients equal torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance
_STEPS, _ITEMS, _LABELS = 9, 4, 6


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    return build_operators(("ctc",), str(tmp_path_factory.mktemp("ctc")))


def _probs(dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(_STEPS, _ITEMS, _LABELS, dtype=dtype, generator=generator).log_softmax(2)


_ROWS = torch.tensor([[1, 1, 2, 0], [3, 4, 3, 4], [5, 5, 5, 5], [2, 0, 0, 0]])
_CASES = {
    "rows": (_ROWS, [9, 8, 9, 5], [3, 4, 4, 1]),
    "joined": (torch.tensor([1, 1, 2, 3, 5, 5]), [9, 1, 4, 6], [3, 1, 0, 2]),
    "impossible": (_ROWS, [2, 9, 4, 0], [3, 4, 4, 1]),
    "nothing": (_ROWS, [9, 9, 0, 1], [0, 0, 0, 0]),
    "strided": (torch.stack((_ROWS, _ROWS), 2)[..., 0], [9, 9, 9, 9], [2, 3, 1, 1]),
}


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_losses_and_gradients(
    operators: Operators, name: str, dtype: torch.dtype, zero_infinity: bool
) -> None:
    targets, steps, lengths = _CASES[name]
    probs = _probs(dtype).transpose(0, 1).contiguous().transpose(0, 1)
    blank = 4 if name == "joined" else 0  # which no target contains
    want, want_alpha = torch.ops.aten._ctc_loss(probs, targets, steps, lengths, blank, zero_infinity)
    grad = torch.randn(_ITEMS, dtype=dtype)
    own = (want, want_alpha, blank, zero_infinity)
    wanted = torch.ops.aten._ctc_loss_backward(grad, probs, targets, steps, lengths, *own)
    for suffix, kinds in (("", list), (".Tensor", torch.tensor)):
        of = kinds(steps), kinds(lengths)
        loss, alpha = operators.call(f"aten::_ctc_loss{suffix}", probs, targets, *of, blank, zero_infinity)
        torch.testing.assert_close(loss, want)
        assert alpha.shape == want_alpha.shape
        found = operators.call(
            f"aten::_ctc_loss_backward{suffix}",
            grad,
            probs,
            targets.int(),
            *of,
            loss,
            alpha,
            blank,
            zero_infinity,
        )
        torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize(
    ("targets", "steps", "lengths", "blank", "text"),
    [
        (_ROWS, [9, 9, 9, 10], [1, 1, 1, 1], 0, "not within the input"),
        (_ROWS, [9, 9, 9, 9], [1, 1, 1, 5], 0, "not those of their labels"),
        (_ROWS, [9, 9, 9, 9], [1, 1, 1], 0, "not one length for each item"),
        (_ROWS, [9, 9, 9, 9], [1, 1, 1, 1], 6, "blank is no label"),
        (_ROWS + 3, [9, 9, 9, 9], [1, 2, 1, 1], 0, "a target is no label"),
    ],
)
def test_refusals(
    operators: Operators, targets: Tensor, steps: list[int], lengths: list[int], blank: int, text: str
) -> None:
    with pytest.raises(NativeError, match=f"aten::_ctc_loss.*{text}"):
        operators.call("aten::_ctc_loss", _probs(torch.float32), targets, steps, lengths, blank)

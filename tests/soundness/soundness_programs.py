"""Programs to corrupt beside the models: control flow, mutation and collectives, each with flat arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop

import inductor_frontend
from tests.collectives.collective_cases import lonely_artifact
from wrapper_ir.artifact import Artifact

# Any in this file: tensors and numbers.
Made = tuple[Artifact, list[Any]]


def _capture(model: nn.Module | Callable[..., Any], args: tuple[Tensor, ...]) -> Made:
    return inductor_frontend.capture(model, args), list(args)


def branches() -> Made:
    """Branches over a tensor, nested, with closures; one result is used again after the calls."""

    def inner(y: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.cond(y.max() > 1, lambda y, w: y @ w, lambda y, w: y.sin() + w, (y, w))
        return z, z.mean(0)

    def other(y: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return (y - w).relu(), w.amax(0)

    def model(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = x.softmax(-1) * 3
        a, b = torch.cond(x.sum() > 0, inner, other, (y, w))
        return (a + y) @ w, torch.cond(b.sum() > 0, lambda b: b.exp(), lambda b: b * 2, (b,))

    torch.manual_seed(0)
    return _capture(model, (torch.rand(4, 4), torch.rand(4, 4)))


def loops() -> Made:
    """A loop with a branch in its body, and a second loop over the first one's result."""

    def model(x: Tensor, w: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        def more(i: Tensor, y: Tensor) -> Tensor:
            return i < n

        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            z = torch.cond(y.sum() > 0, lambda y: torch.tanh(y @ w), lambda y: (y - w).relu(), (y,))
            return i + 1, z

        def shrink(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i - 1, y * 0.5

        i, y = while_loop(more, body, (torch.zeros((), dtype=torch.int64), x))  # type: ignore[no-untyped-call]  # torch's
        j, z = while_loop(lambda i, y: i > 1, shrink, (i, y))  # type: ignore[no-untyped-call]  # torch's
        return y + z, j

    torch.manual_seed(0)
    return _capture(model, (torch.rand(4, 4), torch.rand(4, 4), torch.tensor(3)))


class Accumulator(nn.Module):
    """Writes its buffers and its first argument, through views as well."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(6))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        total, calls = self.total, self.calls
        assert isinstance(total, Tensor)
        assert isinstance(calls, Tensor)
        x[1:3].mul_(2)
        y = self.norm(x)
        total.add_(y.sum(0))
        calls.add_(1)
        x.view(-1)[:4].copy_(total[:4])
        x.index_put_((index,), y[:2], accumulate=True)
        return y * calls, x.t()


def mutation() -> Made:
    """Buffers and inputs written in part, through views, and by an operator that only mutates."""
    torch.manual_seed(0)
    return _capture(Accumulator(), (torch.rand(4, 6), torch.tensor([0, 3])))


PROGRAMS: Mapping[str, Callable[[], Made]] = MappingProxyType(
    {"branches": branches, "collectives": lonely_artifact, "loops": loops, "mutation": mutation}
)

"""Control flow whose gradients torch can compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.control.control_ops import Flow

# Any in this file: operands and results of branches and bodies.


def _trained_branch(flow: Flow) -> Any:
    return lambda x, w: flow.cond(
        (x.sum() > 0), lambda x, w: torch.tanh(x @ w), lambda x, w: x @ (w + 1), (x, w)
    )


def _trained_loop(flow: Flow) -> Any:
    def function(x: Tensor, w: Tensor) -> Any:
        body: Any = lambda i, y: (i + 1, torch.tanh(y @ w))  # noqa: E731 - as users write it
        return flow.loop(lambda i, y: i < 3, body, (torch.zeros((), dtype=torch.int64), x))[1]

    return function


def _trained_scan(flow: Flow) -> Any:
    def step(c: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        return c * 2 + row, (c + 1) * row

    return lambda x, w: flow.scan(step, w[0] * 2, x)


def _trained_regions(flow: Flow) -> Any:
    region = flow.region(lambda x, w: torch.tanh(x @ w))
    return lambda x, w: region(region(x, w), w)


TRAINED: dict[str, Callable[[Flow], Callable[..., Any]]] = {
    "branch": _trained_branch,
    "loop": _trained_loop,
    "scan": _trained_scan,
    "regions": _trained_regions,
}
"""Functions of a matrix of 3 columns and a square one, whose gradients torch can compile."""

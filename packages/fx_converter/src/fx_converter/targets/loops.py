"""Loops that torch has no operator for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fx_converter._compat import has_effect

__all__ = ["stacked_loop"]


# Any: tensors and numbers
@has_effect
def stacked_loop(
    condition: Callable[..., Any], body: Callable[..., Any], carried: Sequence[Any], captured: Sequence[Any]
) -> list[Any]:
    """A loop that returns each carried tensor of all trips, stacked along a new first dimension, the first ones where there
    is no trip; of numbers the last trip's. Torch's operator for such loops carries tensors only."""
    trips: list[Sequence[Any]] = []
    now = carried
    while condition(*now, *captured):
        now = body(*now, *captured)
        trips.append(now)
    columns = zip(*(trips or [carried]), strict=True)
    return [torch.stack(c) if isinstance(c[0], Tensor) else c[-1] for c in columns]

"""A small model with a graph break, in a separate file, whose lines explanations and dumps name."""

from __future__ import annotations

import torch
from torch import Tensor, nn

FIRST_LINE, BREAK_LINE = 21, 22


class TwoParts(nn.Module):
    """Two graphs: Dynamo ends the first one where a branch depends on data."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 4)
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: Tensor) -> Tensor:
        """Shapes: (N, 16) to (N, 4)."""
        y = torch.relu(self.norm(self.first(x)))
        if y.sum() > 1e9:
            y = y + 1
        probabilities: Tensor = self.second(y).softmax(-1)
        return probabilities

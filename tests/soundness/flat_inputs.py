"""The inputs of a program in a flat list."""

from __future__ import annotations

import torch


def flat_inputs(seed: int) -> list[object]:
    g = torch.Generator().manual_seed(seed)
    return [
        torch.randn(5, 8, generator=g),
        torch.randn(4, 4, generator=g),
        3,
        torch.randn(16, generator=g),
        torch.tensor(True),
    ]

"""Training loops of different kinds, compiled beside eager."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# Any in this file: keywords of torch.compile.


class Blocks(nn.Module):
    """Blocks whose inner values are saved for backward, or recomputed there.

    With or without attention between them.
    """

    def __init__(self, again: bool, attention: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)) for _ in range(2)
        )
        self.again = again
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        """The blocks in turn."""
        for block in self.blocks:
            if self.attention:
                rows = x[None, None]
                x = x + nn.functional.scaled_dot_product_attention(rows, rows, rows, is_causal=True)[0, 0]
            x = x + (checkpoint(block, x, use_reentrant=False) if self.again else block(x))
        return x


Step = Callable[[nn.Module, torch.optim.Optimizer, Callable[[], None], Tensor], Tensor]


def _plain(net: nn.Module, optimizer: torch.optim.Optimizer, update: Callable[[], None], x: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss: Tensor = net(x).square().mean()
    torch.autograd.backward(loss)
    update()
    return loss.detach()


def _mixed(net: nn.Module, optimizer: torch.optim.Optimizer, update: Callable[[], None], x: Tensor) -> Tensor:
    """With automatic mixed precision."""
    optimizer.zero_grad()
    with torch.autocast(x.device.type, torch.bfloat16):
        loss: Tensor = net(x).float().square().mean()
    torch.autograd.backward(loss)
    update()
    return loss.detach()


def _accumulated(
    net: nn.Module, optimizer: torch.optim.Optimizer, update: Callable[[], None], x: Tensor
) -> Tensor:
    """One update after the gradients of two halves."""
    optimizer.zero_grad()
    losses: list[Tensor] = [net(half).square().mean() for half in x.chunk(2)]
    for loss in losses:
        torch.autograd.backward(loss)
    update()
    return torch.stack([loss.detach() for loss in losses]).sum()


class Loop:
    """A kind of training: its step, whether values are computed again in backward, whether blocks attend,
    whether the update is compiled, too.
    """

    def __init__(
        self,
        step: Step,
        *,
        again: bool = False,
        attention: bool = False,
        compiled_update: bool = False,
        tolerance: float = 1e-4,
    ) -> None:
        self.step = step
        self.again = again
        self.attention = attention
        self.compiled_update = compiled_update
        self.tolerance = tolerance


LOOPS: Mapping[str, Loop] = {
    "plain": Loop(_plain),
    "attention": Loop(_plain, attention=True, tolerance=1e-3),
    "mixed precision": Loop(_mixed, tolerance=2e-2),
    "checkpoints": Loop(_plain, again=True),
    "accumulation": Loop(_accumulated),
    "compiled optimizer": Loop(_plain, compiled_update=True),
}


def train_beside_eager(loop: Loop, settings: Mapping[str, Any], device: str = "cpu", steps: int = 8) -> None:
    """Trains compiled and eager copies.

    Raises AssertionError where losses, or the weights in the end, differ.
    """
    torch.manual_seed(0)
    nets = [Blocks(loop.again, loop.attention).to(device)]
    nets.append(copy.deepcopy(nets[0]))
    optimizers = [torch.optim.Adam(net.parameters(), 1e-2) for net in nets]
    updates: list[Any] = [optimizer.step for optimizer in optimizers]
    if loop.compiled_update:
        updates[0] = torch.compile(updates[0], **settings)
    runs: list[Any] = [torch.compile(nets[0], **settings), nets[1]]
    for _ in range(steps):
        x = torch.randn(4, 8, device=device)
        found = [loop.step(*each, x) for each in zip(runs, optimizers, updates, strict=True)]
        torch.testing.assert_close(*found, rtol=loop.tolerance, atol=loop.tolerance)
    weights = [[*net.parameters()] for net in nets]
    torch.testing.assert_close(*weights, rtol=loop.tolerance, atol=loop.tolerance)

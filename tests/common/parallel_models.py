"""Models whose layers are split over the processes of a group, as tensor parallelism does it.

Written with functional collectives. Each process has its own part of every weight. `Column` and `Row` are a
layer split by columns and one split by rows; between them nothing is exchanged, after a `Row` all processes
have the sum.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives

# Any in this file: untyped parts of torch
_funcol: Any = _functional_collectives


class SumGradients(torch.autograd.Function):
    """The identity; its gradient is the sum over all processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _funcol.all_reduce(grad.contiguous(), "sum", dist.group.WORLD)


class Sum(torch.autograd.Function):
    """The sum over all processes; its gradient is the identity."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        return _funcol.all_reduce(x.contiguous(), "sum", dist.group.WORLD)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad


class Column(nn.Linear):
    """This process's columns of a layer: `features / world` of its results."""

    def __init__(self, inputs: int, features: int, world: int) -> None:
        super().__init__(inputs, features // world, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        shared: Any = SumGradients.apply
        return super().forward(shared(x))


class Row(nn.Linear):
    """This process's rows of a layer: its part of the inputs; the result is whole."""

    def __init__(self, inputs: int, features: int, world: int) -> None:
        super().__init__(inputs // world, features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        summed: Any = Sum.apply
        made: Tensor = summed(super().forward(x))
        return made


class ParallelMlp(nn.Module):
    """`layers` of two matmuls each, with one all-reduce per layer."""

    def __init__(self, layers: int, width: int, inner: int, world: int) -> None:
        super().__init__()
        pairs = [
            nn.Sequential(Column(width, inner, world), nn.ReLU(), Row(inner, width, world))
            for _ in range(layers)
        ]
        self.layers = nn.ModuleList(pairs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class _SequenceLayer(nn.Module):
    """A gated layer: each process has a part of the rows, and a part of every weight."""

    def __init__(self, width: int, inner: int, world: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, inner // world, bias=False)
        self.up = nn.Linear(width, inner // world, bias=False)
        self.down = nn.Linear(inner // world, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        rows = _funcol.all_gather_tensor(self.norm(x), 0, dist.group.WORLD)
        made = self.down(nn.functional.silu(self.gate(rows)) * self.up(rows))
        part: Tensor = _funcol.reduce_scatter_tensor(made, "sum", 0, dist.group.WORLD)
        return x + part


class SequenceMlp(nn.Module):
    """`layers` of three matmuls each, whose rows are split between layers (sequence parallelism): a gather
    and a reduce-scatter per layer. For inference.
    """

    def __init__(self, layers: int, width: int, inner: int, world: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_SequenceLayer(width, inner, world) for _ in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, world: int) -> None:
        super().__init__()
        self.heads, self.size = heads // world, width // heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = Column(width, 3 * width, world)
        self.out = Row(width, width, world)
        self.up, self.down = Column(width, 4 * width, world), Row(4 * width, width, world)

    def forward(self, x: Tensor) -> Tensor:
        rows, tokens, _ = x.shape
        parts = self.qkv(self.first(x)).view(rows, tokens, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, tokens, self.heads * self.size))
        inner = nn.functional.gelu(self.up(self.second(x)), approximate="tanh")
        made: Tensor = x + self.down(inner)
        return made


class ParallelGpt(nn.Module):
    """A decoder as GPT-2: embeddings and the head are whole on every process, two all-reduces a block."""

    def __init__(self, *, blocks: int, width: int, heads: int, words: int, tokens: int, world: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList([_Block(width, heads, world) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.norm(x) @ self.words.weight.t()
        return logits

"""Models for the benchmark of native libraries on a GPU, in bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.bench.bench_memory_gpu import gpt2_small

Case = tuple[nn.Module, tuple[Tensor, ...]]


class LastLogits(nn.Module):
    """The logits of the last token of GPT-2, in float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """(1, length) token ids to (1, vocabulary) logits."""
        logits: Tensor = self.model(input_ids=ids).logits[:, -1]
        return logits.float()


class _Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class _Layer(nn.Module):
    keys: Tensor
    values: Tensor

    def __init__(self, width: int, heads: int, of_keys: int, inner: int, length: int) -> None:
        super().__init__()
        self.heads, self.of_keys, self.size = heads, of_keys, width // heads
        total = (heads + 2 * of_keys) * self.size
        self.qkv, self.out = nn.Linear(width, total, bias=False), nn.Linear(width, width, bias=False)
        self.gate_up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.first, self.second = _Norm(width), _Norm(width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, of_keys, length, self.size))

    def forward(self, x: Tensor, at: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        qkv = self.qkv(self.first(x)).view(1, 1, self.heads + 2 * self.of_keys, self.size).transpose(1, 2)
        q, k, v = qkv.split([self.heads, self.of_keys, self.of_keys], dim=1)
        keys = self.keys.index_copy_(2, at, _turned(k, cos, sin))
        values = self.values.index_copy_(2, at, v)
        y = functional.scaled_dot_product_attention(
            _turned(q, cos, sin), keys, values, attn_mask=mask, enable_gqa=True
        )
        x = x + self.out(y.transpose(1, 2).reshape(1, 1, -1))
        gate, up = self.gate_up(self.second(x)).chunk(2, dim=-1)
        sum_: Tensor = x + self.down(functional.silu(gate) * up)
        return sum_


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class LlamaStep(nn.Module):
    """A decode step of a Llama with the sizes of the 1-billion model: one token over a cache of `length`."""

    cos: Tensor
    sin: Tensor

    def __init__(self, layers: int = 16, vocabulary: int = 128256, length: int = 512) -> None:
        super().__init__()
        width, self.length = 2048, length
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(_Layer(width, 32, 8, 8192, length) for _ in range(layers))
        self.norm = _Norm(width)
        size = width // 32
        angles = torch.outer(torch.arange(length), 500000.0 ** (-torch.arange(0, size, 2) / size)).repeat(
            1, 2
        )
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, token: Tensor, at: Tensor) -> Tensor:
        """(1, 1) token id and its position of shape (1,) to (1, vocabulary) logits."""
        x = self.embedding(token)
        mask = (torch.arange(self.length, device=at.device) <= at)[None, None, None]
        for layer in self.layers:
            x = layer(x, at, self.cos[at], self.sin[at], mask)
        return functional.linear(self.norm(x)[:, 0], self.embedding.weight).float()


def _gpt2(length: int) -> Case:
    model = LastLogits(gpt2_small()).to(torch.bfloat16).eval()
    return model, (torch.ones(1, length, dtype=torch.int64, device="cuda"),)


def _llama() -> Case:
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = LlamaStep().to(torch.bfloat16).eval()
        return model, (torch.ones(1, 1, dtype=torch.int64), torch.full((1,), 300))


MODELS: Mapping[str, Callable[[], Case]] = {
    "GPT-2 small, 64 tokens": lambda: _gpt2(64),
    "GPT-2 small, 1 token": lambda: _gpt2(1),
    "Llama 1B, a decode step over a cache of 512": _llama,
}
"""Each returns a module on the GPU and its arguments."""

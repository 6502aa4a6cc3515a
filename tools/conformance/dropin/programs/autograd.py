"""Autograd: custom functions, hooks, higher orders, checkpointing, modes of gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tools.conformance.dropin.table import ints, rand, table

# Any in this file: contexts of custom functions and results of models.


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x.sign()


class _Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, k: float) -> tuple[Tensor, Tensor]:
        ctx.k = k
        return x * k, x + k

    @staticmethod
    def backward(ctx: Any, a: Tensor, b: Tensor) -> tuple[Tensor, None]:
        return a * ctx.k + b, None


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


_double: Any = _Double.apply
_two: Any = _Two.apply
_straight: Any = _Straight.apply


def _hooked(x: Tensor) -> Tensor:
    y = x * 2
    y.register_hook(lambda g: g * 3)  # type: ignore[no-untyped-call]  # torch's
    return y.sin()


def _retained(x: Tensor) -> Any:
    y = x * 2
    return torch.autograd.grad(y.sum(), x)


def _penalty(x: Tensor) -> Tensor:
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return g.pow(2).sum()


def _no_grad_part(x: Tensor) -> Tensor:
    with torch.no_grad():
        s = x.sum()
    return x * s


def _enabled(x: Tensor) -> Tensor:
    with torch.no_grad(), torch.enable_grad():
        return x.sin()


def _module_hook(x: Tensor) -> Any:
    return _HOOKED(x)


torch.manual_seed(0)
_HOOKED = nn.Linear(6, 3)
_HOOKED.register_forward_hook(lambda m, args, out: out * 2)
_HOOKED.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
_NET = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
_NORM = nn.BatchNorm1d(6)
_CONV = nn.Conv1d(6, 4, 3, padding=1)
_LSTM = nn.LSTM(6, 5, batch_first=True)
_GRU = nn.GRU(6, 5)
_EMBEDDING = nn.Embedding(10, 4)
_ATTENTION = nn.MultiheadAttention(6, 2, batch_first=True)


def _grad(n: int) -> tuple[Tensor]:
    return (rand(n, 6, grad=True),)


PROGRAMS = table(
    sum=(lambda x: x.sum(), _grad),
    custom=(lambda x: _double(x), _grad),
    custom_two=(lambda x: _two(x, 3.0), _grad),
    custom_straight=(lambda x: _straight(x * 3), _grad),
    hook=(_hooked, _grad),
    inner_gradient=(_retained, _grad),
    penalty=(_penalty, _grad),
    no_grad_part=(_no_grad_part, _grad),
    enable_grad=(_enabled, _grad),
    inference_mode=torch.inference_mode()(lambda x: x * 2),
    detach=(lambda x: x * x.detach(), _grad),
    detach_result=(lambda x: (x * 2).detach(), _grad),
    requires_grad=lambda x: (x * 2).requires_grad_(),
    checkpoint=(lambda x: checkpoint(lambda y: y.sin().cos(), x, use_reentrant=False), _grad),
    checkpoint_twice=(
        lambda x: checkpoint(torch.sin, checkpoint(torch.cos, x, use_reentrant=False), use_reentrant=False),
        _grad,
    ),
    checkpoint_dropout=(lambda x: checkpoint(lambda y: F.dropout(y, 0.5), x, use_reentrant=False), _grad),
    network=(lambda x: _NET(x), _grad),
    batch_norm=(lambda x: _NORM(x), _grad),
    convolution=(lambda x: _CONV(x), lambda n: (rand(n, 6, 5, grad=True),)),
    lstm=(lambda x: _LSTM(x)[0], lambda n: (rand(2, n, 6),)),
    gru=(lambda x: _GRU(x)[0], lambda n: (rand(n, 2, 6),)),
    embedding=(lambda i: _EMBEDDING(i), lambda n: (ints(n),)),
    attention_module=(lambda x: _ATTENTION(x, x, x)[0], lambda n: (rand(2, n, 6, grad=True),)),
    module_hooks=(_module_hook, _grad),
    cross_entropy=(lambda x, t: F.cross_entropy(x, t), lambda n: (rand(n, 6, grad=True), ints(n))),
    nll=(lambda x, t: F.nll_loss(x.log_softmax(1), t), lambda n: (rand(n, 6, grad=True), ints(n))),
    mse=(lambda x: F.mse_loss(x, torch.zeros_like(x)), _grad),
    smooth_l1=(lambda x: F.smooth_l1_loss(x, torch.zeros_like(x)), _grad),
    layer_norm=(lambda x: F.layer_norm(x, (6,)), _grad),
    group_norm=(lambda x: F.group_norm(x, 2), _grad),
    softmax=(lambda x: x.softmax(1), _grad),
    max_pool=(lambda x: F.max_pool1d(x[None], 2), _grad),
    average_pool=(lambda x: F.avg_pool1d(x[None], 2), _grad),
    interpolate=(lambda x: F.interpolate(x[None], scale_factor=2), _grad),
    pad_reflect=(lambda x: F.pad(x[None], (1, 1), mode="reflect"), _grad),
    gather=(lambda x, i: x.gather(0, i), lambda n: (rand(n, 2, grad=True), ints(n, 2, high=2))),
    index_select=(lambda x, i: x[i], lambda n: (rand(4, 2, grad=True), ints(n))),
    cumulative=(lambda x: x.cumsum(0), _grad),
    logsumexp=(lambda x: x.logsumexp(1), _grad),
    norm=(lambda x: x.norm(), _grad),
    prod=(lambda x: x.prod(1), _grad),
    topk=(lambda x: x.topk(2).values, _grad),
    sort=(lambda x: x.sort(1).values, _grad),
    matmul=(lambda x: x @ x.t(), _grad),
    einsum=(lambda x: torch.einsum("ij,kj->ik", x, x), _grad),
    cholesky=(lambda x: torch.linalg.cholesky(x.t() @ x + torch.eye(6)), _grad),
    inverse=(lambda x: torch.linalg.inv(x.t() @ x + torch.eye(6)), _grad),
    fft=(lambda x: torch.fft.rfft(x).abs(), _grad),
    complex_matmul=(
        lambda x: (x * x.conj()).real.sum(),
        lambda n: (rand(n, 2, dtype=torch.complex64, grad=True),),
    ),
    unused_input=(lambda x, y: x.sum(), lambda n: (rand(n, grad=True), rand(n, grad=True))),
    two_outputs=(lambda x: (x.sum(), x.prod()), _grad),
    constant_output=(lambda x: (x.sum(), torch.ones(2)), _grad),
    integer_output=(lambda x: (x.sum(), x.argmax()), _grad),
    nonleaf_input=(lambda x: x * 2, lambda n: (rand(n, grad=True) * 1,)),
)

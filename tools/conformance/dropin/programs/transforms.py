"""`torch.func`, AMP, random state, tensor subclasses."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, func
from torch.nn import functional as F
from torch.testing._internal.two_tensor import TwoTensor

from tools.conformance.dropin.table import rand, table

_pair: Callable[..., Tensor] = TwoTensor  # its class has no types


def _two(n: int) -> tuple[Tensor]:
    return (_pair(rand(n, 2), rand(n, 2) + 1),)


def _grad_two(n: int) -> tuple[Tensor]:
    return (_pair(rand(n, 2), rand(n, 2) + 1).requires_grad_(),)


def _seeded(x: Tensor) -> Tensor:
    torch.manual_seed(3)
    return x + torch.rand(6)


def _autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.t()


def _autocast_off(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
        with torch.autocast("cpu", enabled=False):
            return y.float() @ y.float()


def _grad(n: int) -> tuple[Tensor]:
    return (rand(n, 6, grad=True),)


def _scalar(x: Tensor) -> Tensor:
    return (x.sin() ** 2).sum()


PROGRAMS = table(
    func_grad=func.grad(_scalar),
    func_grad_and_value=func.grad_and_value(_scalar),
    func_grad_twice=lambda x: func.grad(lambda y: func.grad(_scalar)(y).sum())(x),
    func_vjp=lambda x: func.vjp(torch.sin, x)[1](x),
    func_jvp=lambda x: func.jvp(torch.sin, (x,), (x,)),
    func_vmap=lambda x: func.vmap(torch.sin)(x),
    func_vmap_matmul=lambda x: func.vmap(lambda y: y @ y)(x),
    func_vmap_dims=lambda x: func.vmap(lambda y: y * 2, in_dims=1, out_dims=1)(x),
    func_vmap_grad=lambda x: func.vmap(func.grad(_scalar))(x),
    func_jacrev=lambda x: func.jacrev(lambda y: y.sin().sum(1))(x),
    func_jacfwd=lambda x: func.jacfwd(lambda y: y.sin().sum(1))(x),
    func_hessian=lambda x: func.hessian(_scalar)(x[0]),
    func_functionalize=lambda x: func.functionalize(lambda y: y.clone().add_(1))(x),
    func_vmap_random=lambda x: func.vmap(lambda y: y + torch.rand(6), randomness="different")(x),
    func_linearize=lambda x: func.linearize(torch.sin, x)[0],
    autocast=_autocast,
    autocast_off=_autocast_off,
    autocast_gradient=(_autocast, _grad),
    half=lambda x: x.half() * 2,
    bfloat16=lambda x: (x.bfloat16() * 2).float(),
    float64=lambda x: x.double().exp(),
    float8=lambda x: x.to(torch.float8_e4m3fn).float(),
    promotion=lambda x: x + torch.ones(6, dtype=torch.float64),
    integer_division=lambda x: (x.long() // 2, x.long() % 3),
    random=lambda x: x + torch.rand(6),
    random_normal=lambda x: x + torch.randn_like(x),
    random_int=lambda x: torch.randint(0, 10, (x.shape[0],)),
    random_permutation=lambda x: x[torch.randperm(x.shape[0])],
    random_bernoulli=lambda x: torch.bernoulli(x.sigmoid()),
    random_multinomial=lambda x: torch.multinomial(x.abs(), 2),
    random_uniform_in_place=lambda x: x.clone().uniform_(),
    random_exponential=lambda x: x.clone().exponential_(),
    random_normal_in_place=lambda x: x.clone().normal_(),
    random_twice=lambda x: (torch.rand(3), torch.rand(3)),
    random_seeded=_seeded,
    dropout=lambda x: F.dropout(x, 0.5),
    dropout_gradient=(lambda x: F.dropout(x, 0.5), _grad),
    alpha_dropout=lambda x: F.alpha_dropout(x, 0.5, training=True),
    gumbel=lambda x: F.gumbel_softmax(x, dim=1),
    rrelu=lambda x: F.rrelu(x, training=True),
    two_tensor=(lambda x: x * 2, _two),
    two_tensor_view=(lambda x: x.t(), _two),
    two_tensor_written=(lambda x: x.add_(1), _two),
    two_tensor_gradient=(lambda x: x.sin() * 2, _grad_two),
    two_tensor_made=lambda x: _pair(x * 2, x + 1),
    two_tensor_taken_apart=(lambda x: x.a + x.b, _two),
    parameter=(lambda x: x * 2, lambda n: (torch.nn.Parameter(rand(n)),)),
    buffer=(lambda x: x * 2, lambda n: (torch.nn.Buffer(rand(n)),)),
)

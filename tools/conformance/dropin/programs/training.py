"""Optimizers as compiled steps, and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, optim
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tools.conformance.dropin.table import rand, table

# Any in this file: optimizers of any class.


def _step(kind: Callable[..., Any], **options: Any) -> Any:
    def step(optimizer: Any) -> None:
        optimizer.step()

    def args(n: int) -> tuple[Any, ...]:
        weights = [rand(n, 3, grad=True), rand(n, grad=True)]
        for weight in weights:
            weight.grad = rand(*weight.shape) * 2
        return (_Watched(kind(weights, **options), weights),)

    return step, args


class _Watched:
    """An optimizer, whose weights a comparison finds."""

    def __init__(self, optimizer: Any, weights: list[Tensor]) -> None:
        self.optimizer, self.weights = optimizer, weights

    def step(self) -> None:
        """Performs one optimizer step."""
        self.optimizer.step()


torch.utils._pytree.register_pytree_node(
    _Watched, lambda w: (w.weights, w.optimizer), lambda xs, o: _Watched(o, [*xs])
)


def _heads(n: int) -> tuple[Tensor, ...]:
    return rand(1, 2, n, 4, grad=True), rand(1, 2, n, 4, grad=True) * 2, rand(1, 2, n, 4, grad=True) + 1


def _flex_heads(n: int) -> tuple[Tensor, ...]:
    return tuple(rand(1, 2, 16 * n, 16) + i for i in range(3))


def _causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def _flex_masked(q: Tensor, k: Tensor, v: Tensor) -> Any:
    mask = create_block_mask(_causal, None, None, q.shape[2], q.shape[2], device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


PROGRAMS = table(
    sgd=_step(optim.SGD, lr=0.1),
    sgd_momentum=_step(optim.SGD, lr=0.1, momentum=0.9),
    sgd_nesterov=_step(optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    sgd_decay=_step(optim.SGD, lr=0.1, weight_decay=0.1),
    adam=_step(optim.Adam, lr=0.1),
    adam_amsgrad=_step(optim.Adam, lr=0.1, amsgrad=True),
    adam_tensor_rate=_step(optim.Adam, lr=torch.tensor(0.1)),
    adam_foreach=_step(optim.Adam, lr=0.1, foreach=True),
    adamw=_step(optim.AdamW, lr=0.1),
    adamax=_step(optim.Adamax, lr=0.1),
    nadam=_step(optim.NAdam, lr=0.1),
    radam=_step(optim.RAdam, lr=0.1),
    adagrad=_step(optim.Adagrad, lr=0.1),
    adadelta=_step(optim.Adadelta, lr=0.1),
    rmsprop=_step(optim.RMSprop, lr=0.1),
    rprop=_step(optim.Rprop, lr=0.1),
    asgd=_step(optim.ASGD, lr=0.1),
    sdpa=(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), _heads),
    sdpa_causal=(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), _heads),
    sdpa_mask=(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.ones(q.shape[2], q.shape[2]).tril()),
        _heads,
    ),
    sdpa_dropout=(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5), _heads),
    flex=(lambda q, k, v: flex_attention(q, k, v), _flex_heads),
    flex_score=(
        lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j)),
        _flex_heads,
    ),
    flex_mask=(_flex_masked, _flex_heads),
)

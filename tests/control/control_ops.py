"""Operators that torch calls, so that no kernel has to be built, and control flow in two ways: torch's, and
Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

# Any in this file: operands and results of branches and bodies.


@torch.library.custom_op("flow::times", mutates_args=())
def times(x: Tensor, n: int) -> Tensor:
    """`x * n`."""
    return (x * n).contiguous()


@torch.library.custom_op("flow::number", mutates_args=())
def number(n: int) -> Tensor:
    """A tensor of one integer."""
    return torch.tensor(n)


@torch.library.custom_op("flow::less", mutates_args=())
def less(a: Tensor, b: Tensor) -> Tensor:
    """`a < b`."""
    return a < b


@torch.library.custom_op("flow::positive", mutates_args=())
def positive(x: Tensor) -> Tensor:
    """Returns whether the sum of all elements is positive."""
    return x.sum() > 0


@torch.library.custom_op("flow::plus", mutates_args=())
def plus(a: Tensor, b: Tensor) -> Tensor:
    """`a + b`, of any layouts that broadcast to the first one's."""
    return (a + b).contiguous()


@torch.library.custom_op("flow::rows", mutates_args=())
def rows(x: Tensor, n: int) -> Tensor:
    """The first rows."""
    return x[:n].clone()


@torch.library.custom_op("flow::total", mutates_args=())
def total(x: Tensor) -> Tensor:
    """The sum of all elements, as a matrix of one row."""
    return x.sum().to(torch.float32).expand(1, 3).contiguous()


@torch.library.custom_op("flow::noise", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def noise(x: Tensor) -> Tensor:
    """Random numbers of the sizes of `x`."""
    return torch.rand(x.shape)


said: list[float] = []
"""Arguments of calls of `say`, in order."""


@torch.library.custom_op("flow::say", mutates_args=())
def say(x: Tensor) -> Tensor:
    """Stores the sum of all elements."""
    said.append(round(float(x.sum()), 3))
    return x + 1


for _op in (times, noise, say):
    _op.register_fake(lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format))
plus.register_fake(lambda a, b: torch.empty_like(a, memory_format=torch.contiguous_format))
number.register_fake(lambda n: torch.empty((), dtype=torch.int64))
less.register_fake(lambda a, b: torch.empty((), dtype=torch.bool))
positive.register_fake(lambda x: torch.empty((), dtype=torch.bool))
rows.register_fake(lambda x, n: x.new_empty(n, *x.shape[1:]))
total.register_fake(lambda x: torch.empty(1, 3))


def _register_operators() -> None:
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    _register_effectful_op(torch.ops.flow.say.default, _EffectType.ORDERED)


_register_operators()


def _branch(
    predicate: Any, true: Callable[..., Any], false: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    return true(*args) if predicate else false(*args)


def _loop(test: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]) -> Any:
    while test(*carried):
        carried = body(*carried)
    return carried


def _scan(step: Callable[..., Any], carried: Tensor, xs: Tensor) -> tuple[Tensor, Tensor]:
    made = []
    for x in xs:
        carried, y = step(carried, x)
        made.append(y)
    return carried, torch.stack(made)


def _map(function: Callable[..., Any], xs: Tensor, *args: Any) -> Tensor:
    return torch.stack([function(x, *args) for x in xs])


@dataclass(frozen=True, slots=True)
class Flow:
    """Control flow: torch's operators, or Python."""

    cond: Callable[..., Any]
    loop: Callable[..., Any]
    scan: Callable[..., Any]
    map: Callable[..., Any]
    region: Callable[[Callable[..., Any]], Callable[..., Any]]


traced = Flow(torch.cond, while_loop, scan, map_rows, torch.compiler.nested_compile_region)
eager = Flow(_branch, _loop, _scan, _map, lambda function: function)

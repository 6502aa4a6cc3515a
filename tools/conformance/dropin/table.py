"""Defines a program of the list, and short ways to write its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Any in this file: arguments and results of any function.
_SEED = 5


@dataclass(frozen=True, slots=True)
class Program:
    """A function, and its arguments for a size `n`.

    Tensors among the results are differentiated if possible.
    """

    function: Callable[..., Any]
    args: Callable[[int], tuple[Any, ...]]


def _generator(sizes: tuple[int, ...]) -> torch.Generator:
    return torch.Generator().manual_seed(_SEED + sum(sizes))


def rand(*sizes: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of normally distributed numbers, the same in each call."""
    return torch.randn(*sizes, generator=_generator(sizes), dtype=dtype).requires_grad_(grad)


def ints(*sizes: int, high: int = 4, dtype: torch.dtype = torch.int64) -> Tensor:
    """A tensor of integers from 0 to `high` - 1, the same in each call."""
    return torch.randint(0, high, sizes, generator=_generator(sizes)).to(dtype)


def mask(*sizes: int) -> Tensor:
    """A tensor of booleans, some of which are true."""
    values = rand(*sizes) > 0
    values.view(-1)[:1] = True
    return values


def _one(n: int) -> tuple[Any, ...]:
    return (rand(n, 6),)


def table(**entries: Any) -> Mapping[str, Program]:
    """Programs by name: functions of one tensor of `n` rows and 6 columns, or pairs of a function and its
    arguments for `n`.
    """
    return {
        name: Program(entry, _one) if callable(entry) else Program(*entry) for name, entry in entries.items()
    }

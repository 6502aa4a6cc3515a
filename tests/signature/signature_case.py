"""A model of a signature test, and the list that all of them are in.

Sizes and operators repeat, so that few kernels are built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor

# Any in this file: models, their arguments and results.
Call = tuple[tuple[Any, ...], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A function, or a factory of modules, and a factory of arguments, which returns equal ones every time.

    `stock` are the aspects in which torch.compile differs from eager mode, and `ours` those in which a
    captured program does, with the `reason`. If both are empty, all agree in every aspect of
    `tests.signature.call_effects`. `stock_fails` is torch.compile's error.
    """

    name: str
    function: Callable[..., Any] | None = None
    module: Callable[[], nn.Module] | None = None
    make: Callable[[], Call]
    calls: int = 1
    dynamic: Any = None
    stock: Collection[str] = ()
    ours: Collection[str] = ()
    stock_fails: str = ""
    reason: str = ""

    def model(self) -> Any:
        """The function, or a new module."""
        if self.module is not None:
            torch.manual_seed(0)
            return self.module()
        return self.function


CASES: dict[str, Case] = {}


def x() -> Tensor:
    """Four rows of three."""
    return torch.arange(12.0).view(4, 3) + 0.5


def one() -> Call:
    return (x(),), {}


def two() -> Call:
    return (x(), x() * 2), {}


def case(make: Callable[[], Call] = one, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function, or a module class, under its own name."""

    def add(made: Any) -> Any:
        key = "module" if isinstance(made, type) else "function"
        name = made.__name__
        CASES[name] = Case(name=name, make=make, **{key: made}, **more)
        return made

    return add


def pair(a: Tensor, b: Tensor) -> Any:
    """Torch's own example of a wrapper."""
    return TwoTensor(a, b)  # type: ignore[no-untyped-call]  # torch's

"""Control flow: conditionals, loops, scans, branches of Python, nested regions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as mapped

from tools.conformance.dropin.table import rand, table

# Any in this file: results of higher-order operators.


def _while(x: Tensor) -> Any:
    return _WHILE(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))


def _while_data(x: Tensor) -> Any:
    return _WHILE(lambda y: y.abs().sum() < 100, lambda y: (y * 2 + 1,), (x,))


def _nested(x: Tensor) -> Any:
    def inner(y: Tensor) -> Any:
        return torch.cond(y.sum() > 1, torch.sin, torch.cos, (y,))

    return torch.cond(x.sum() > 0, inner, lambda y: y - 1, (x,))


def _scan(x: Tensor) -> Any:
    return scan(lambda c, y: (c + y, c * y), x[0], x)


def _scan_reverse(x: Tensor) -> Any:
    return scan(lambda c, y: (c + y, c + 1), x[0], x, reverse=True)


@torch.compiler.nested_compile_region
def _region(x: Tensor) -> Tensor:
    return x.sin() * 2


@torch.compiler.nested_compile_region
def _writes(x: Tensor) -> Tensor:
    return x.cos().add_(1)


def _apart(x: Tensor) -> Tensor:
    return x * 3


def _whole(x: Tensor) -> Tensor:
    return x * 3


_DISABLED: Any = torch.compiler.disable(_apart)  # type: ignore[no-untyped-call]  # torch's
_ALLOWED: Any = torch.compiler.allow_in_graph(_whole)  # type: ignore[no-untyped-call]  # torch's
_WHILE: Any = while_loop
_MAP: Any = mapped


def _broken(x: Tensor) -> Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def _python_while(x: Tensor) -> Tensor:
    while x.shape[0] > 2:
        x = x[1:] + x[:-1]
    return x


def _generator(x: Tensor) -> Tensor:
    return sum((row for row in x), torch.zeros(x.shape[1]))


def _exception(x: Tensor) -> Tensor:
    try:
        raise ValueError("no")
    except ValueError:
        return x + 1


def _grad(n: int) -> tuple[Tensor]:
    return (rand(n, 6, grad=True),)


PROGRAMS = table(
    cond=lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
    cond_false=lambda x: torch.cond(x.sum() > 1e9, torch.sin, torch.cos, (x,)),
    cond_two_results=lambda x: torch.cond(x.sum() > 0, lambda y: (y + 1, y), lambda y: (y - 1, y * 2), (x,)),
    cond_of_size=lambda x: torch.cond(x.shape[0] > 4, torch.sin, torch.cos, (x,)),
    cond_closure=lambda x: torch.cond(x.sum() > 0, lambda y: y + x, lambda y: y - x, (x * 2,)),
    cond_nested=_nested,
    cond_gradient=(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), _grad),
    while_loop=_while,
    while_data=_while_data,
    scan=_scan,
    scan_reverse=_scan_reverse,
    map=lambda x: _MAP(lambda y: y.sin() + 1, x),
    map_gradient=(lambda x: _MAP(lambda y: y.sin() + 1, x), _grad),
    associative_scan=lambda x: associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"),
    region_once=_region,
    region_twice=lambda x: _region(_region(x)),
    region_two_sizes=lambda x: (_region(x), _region(x[1:])),
    region_writes=lambda x: _writes(x) + _writes(x + 1),
    region_gradient=(lambda x: _region(_region(x)), _grad),
    disabled_function=lambda x: _DISABLED(x + 1) + 1,
    allowed_in_graph=lambda x: _ALLOWED(x + 1) + 1,
    graph_break=_broken,
    print_break=lambda x: (print(""), x + 1)[1],
    data_branch=lambda x: x + 1 if x.sum() > 0 else x - 1,
    python_while=_python_while,
    python_generator=_generator,
    python_exception=_exception,
    zip_rows=lambda x: [a + b for a, b in zip(x, x)],
    dict_comprehension=lambda x: {f"r{i}": r * i for i, r in enumerate(x.unbind(1))},
    nested_function=lambda x: (lambda f: f(f(x)))(lambda y: y * y),
    where=lambda x: torch.where(x > 0, x, -x),
    any_all=lambda x: (x.any(), (x > 0).all()),
)

"""Arguments of callers: those of the types that `main` declares, and wrong ones."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from wrapper_ir import ir
from wrapper_ir.errors import WirError
from wrapper_ir.expr import Expr
from wrapper_ir.expr.evaluate import evaluate
from wrapper_ir_torch import DTYPES

_MANY = 1 << 16


def arguments(program: ir.Program, rng: random.Random, wrong: float) -> list[Any]:  # Any: tensors and numbers
    """Returns flat arguments of `main`; with probability `wrong` each, one that violates its type.

    The same `rng` creates the same ones again, in separate memory.
    """
    values = {s.name: rng.choice((1, 2, 3, 4, 5, 8, 9, 16)) for s in program.symbols}
    found: list[Any] = []
    for param in program.main.params:
        arg = _make(param.value.type, values, rng)
        if rng.random() < wrong:
            arg = _spoil(arg, found, rng)
        found.append(arg)
    return found


def _make(type: ir.Type, values: Mapping[str, int], rng: random.Random) -> Any:  # Any: see `arguments`
    match type:
        case ir.TensorType():
            sizes, strides = _numbers(type.sizes, values), _numbers(type.strides, values)
            return _tensor(DTYPES[type.dtype], sizes, strides, rng)
        case ir.ScalarType(kind=kind):
            numbers = {
                "int": (0, 1, 2, 4, 7, -3, 1 << 40, -(1 << 63)),
                "float": (0.5, float("nan")),
                "bool": (True, False),
            }
            return rng.choice(numbers[kind.value])
        case _:
            return None


def _numbers(exprs: tuple[Expr, ...], values: Mapping[str, int]) -> list[int]:
    """Returns sizes that a caller can pass, independently of the type."""
    found = []
    for e in exprs:
        try:
            found.append(min(max(int(evaluate(e, values)), 0), 64))
        except (WirError, ArithmeticError):
            found.append(1)
    return found


def _tensor(dtype: torch.dtype, sizes: list[int], strides: list[int], rng: random.Random) -> Tensor:
    """In a storage of exactly its extent, of small numbers."""
    extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides)) if all(sizes) else 0
    extent = min(extent, _MANY)
    flat = torch.empty(extent, dtype=dtype)
    numbers = torch.tensor([rng.randrange(4) for _ in range(min(extent, 16))] or [0])
    if extent:
        flat.copy_(numbers.repeat(-(-extent // len(numbers)))[:extent])
    return flat.as_strided(sizes, strides)


def _spoil(arg: Any, others: list[Any], rng: random.Random) -> Any:  # Any: see `arguments`
    """Another dtype, size, stride or offset, another's memory, another class."""
    if not isinstance(arg, Tensor):
        return rng.choice((None, 1.5, True, -1, 1 << 63, (1 << 63) - 1, torch.ones(()), "1"))
    tensors = [o for o in others if isinstance(o, Tensor) and o.numel()]
    wider = {1: torch.int64, 2: torch.int8, 4: torch.float64, 8: torch.int32}
    kinds = [
        lambda: arg.to(wider.get(arg.element_size(), torch.uint8)),
        lambda: arg.clone(memory_format=torch.contiguous_format).flatten().view(torch.uint8),
        lambda: arg[:-1] if arg.dim() else arg[None],
        lambda: arg.flatten(),
        lambda: arg.t() if arg.dim() == 2 else arg[None],
        lambda: torch.cat([arg, arg]) if arg.dim() else arg[None],
        lambda: torch.cat([arg, arg])[len(arg) :] if arg.dim() else arg.clone(),
        lambda: arg[:1].expand(arg.shape) if arg.dim() and arg.numel() else arg,
        lambda: torch.empty(0, dtype=arg.dtype),
        lambda: arg.to("meta"),
        lambda: arg.tolist(),
        lambda: arg.detach().clone().requires_grad_() if arg.is_floating_point() else arg,
        lambda: arg.to_sparse() if arg.dim() else arg,
    ]
    kinds += [lambda: _over(rng.choice(tensors), arg)] * (3 if tensors else 0)
    return rng.choice(kinds)()  # type: ignore[no-untyped-call]  # torch's


def _over(other: Tensor, arg: Tensor) -> Tensor:
    """`arg`'s layout over the memory of another argument, where that is large enough.

    Else the other one itself.
    """
    if other.layout != torch.strided or other.is_meta or arg.is_meta:
        return other
    need = 1 + sum((n - 1) * s for n, s in zip(arg.shape, arg.stride())) if arg.numel() else 0
    if need * arg.element_size() > other.untyped_storage().nbytes():
        return other
    made = torch.empty(0, dtype=arg.dtype)
    return made.set_(other.untyped_storage(), 0, arg.shape, arg.stride())

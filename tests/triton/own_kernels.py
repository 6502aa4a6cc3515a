"""Triton kernels of a model's own, one of each kind, each with the same in torch's operators."""

# The kernels are functions of Triton's language, which has no types.
# mypy: disable-error-code="untyped-decorator,no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

# Any: Triton's decorators and kernels have no types, nor has this check; a number of a tensor is a symbol in
# a trace.
jit: Any = triton.jit
heuristics: Any = triton.heuristics
autotune: Any = triton.autotune
check: Any = torch._check


@dataclass(frozen=True, slots=True)
class Kind:
    """A model that launches kernels, and its result by torch's operators."""

    model: Callable[..., Any]
    expected: Callable[..., Any]


@jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@heuristics({"BLOCK": lambda args: 64 if args["n"] < 1000 else 128})
@heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@jit
def ruled(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    if EVEN:
        tl.store(out + at, tl.load(x + at) + BLOCK)
    else:
        tl.store(out + at, tl.load(x + at, mask=at < n) - BLOCK, mask=at < n)


@autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8)], key=["n"])
@heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@jit
def ruled_configs(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    if EVEN:
        tl.store(out + at, tl.load(x + at) * 3)
    else:
        tl.store(out + at, tl.load(x + at, mask=inside) * 3, mask=inside)


@autotune(
    configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_stages=2)],
    key=["n"],
    restore_value=["out"],
    reset_to_zero=["seen"],
)
@jit
def accumulate(x, out, seen, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(out + at, mask=inside) + tl.load(x + at, mask=inside), mask=inside)
    tl.store(seen + at, tl.load(seen + at, mask=inside) + 1.0, mask=inside)


@jit
def described(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    out.store([row, column], x.load([row, column]) * 2)


@jit
def describing(x, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    target.store([row, column], source.load([row, column]) * 2)


def several_grids(x: Tensor) -> Tensor:
    out, again = torch.empty_like(x), torch.empty_like(x)
    n = x.numel()
    double[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64)
    double[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](out, again, n, BLOCK=128, num_warps=2)
    return again + out


def with_heuristics(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    ruled[(triton.cdiv(x.numel(), 64),)](x, out, x.numel())
    return out


def with_heuristics_of_configs(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    ruled_configs[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out + 1


def restored(x: Tensor) -> tuple[Tensor, Tensor]:
    out, seen = x.clone(), torch.zeros_like(x)
    accumulate[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, seen, x.numel())
    return out, seen


def with_descriptors(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    source, target = (TensorDescriptor.from_tensor(t, [32, 16]) for t in (x, out))
    described[(triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 16))](source, target, ROWS=32, COLUMNS=16)
    return out + 1


def with_descriptors_of_parts(x: Tensor) -> Tensor:
    """Of every other row of the argument, and of a corner of the result."""
    out = torch.zeros_like(x)
    rows, columns = x.shape[0] // 2, x.shape[1] - 3
    source = TensorDescriptor(x, [rows, columns], [2 * x.stride(0), 1], [32, 16])
    target = TensorDescriptor(out, [rows, columns], list(out.stride()), [32, 16])
    described[(triton.cdiv(rows, 32), triton.cdiv(columns, 16))](source, target, ROWS=32, COLUMNS=16)
    return out


def with_descriptors_of_the_device(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 16))
    describing[grid](x, out, x.shape[0], x.shape[1], ROWS=32, COLUMNS=16)
    return out + 1


def _corner(x: Tensor) -> Tensor:
    rows, columns = x.shape[0] // 2, x.shape[1] - 3
    out = torch.zeros_like(x)
    out[:rows, :columns] = 2 * x[: 2 * rows : 2, :columns]
    return out


def _ruled(x: Tensor) -> Tensor:
    block = 64 if x.numel() < 1000 else 128
    return x + block if x.numel() % block == 0 else x - block


KINDS = {
    "grids": Kind(several_grids, lambda x: 6 * x),
    "heuristics": Kind(with_heuristics, _ruled),
    "heuristics_of_configs": Kind(with_heuristics_of_configs, lambda x: 3 * x + 1),
    "restored": Kind(restored, lambda x: (2 * x, torch.ones_like(x))),
    "descriptors": Kind(with_descriptors, lambda x: 2 * x + 1),
    "descriptors_of_parts": Kind(with_descriptors_of_parts, _corner),
    "descriptors_of_the_device": Kind(with_descriptors_of_the_device, lambda x: 2 * x + 1),
}


def argument_from_a_tensor(x: Tensor, count: Tensor) -> Tensor:
    n: Any = count.item()
    check(n <= x.numel())
    out = torch.zeros_like(x)
    double[(triton.cdiv(x.numel(), 64),)](x, out, n, BLOCK=64)
    return out


def grid_from_a_tensor(x: Tensor, count: Tensor) -> Tensor:
    n: Any = (count * 2).item() // 2
    check(n >= 0)
    check(n <= x.numel())
    out = torch.zeros_like(x)
    double[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, BLOCK=32)
    return torch.add(out, n)


def generated_from_a_tensor(x: Tensor, count: Tensor) -> tuple[Tensor, ...]:
    """Torch's own kernels, with a number among their arguments and a result of data-dependent size."""
    n: Any = count.item()
    check(n >= 0)
    check(n <= x.numel())
    factor: Any = (count / 4).item()
    return x * n + factor, torch.arange(n, device=x.device) * 2.5


def _first(x: Tensor, count: Tensor) -> Tensor:
    kept = torch.arange(x.numel(), device=x.device).reshape(x.shape) < count
    return torch.where(kept, 2 * x, 0)


ITEMS = {
    "argument": Kind(argument_from_a_tensor, _first),
    "grid": Kind(grid_from_a_tensor, lambda x, count: _first(x, count) + count),
    "generated": Kind(
        generated_from_a_tensor,
        lambda x, count: (x * count + count / 4, torch.arange(int(count), device=x.device) * 2.5),
    ),
}
"""Launches with numbers from a tensor."""

"""Custom operators that tests compile, one for every kind of schema that torch treats differently.

Importing this module registers them in torch under `fe_ops::`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._library.effects import EffectType
from torch.library import custom_op

OPS: Any = torch.ops.fe_ops  # Any: its attributes are what is registered below

LOG: list[tuple[str, float]] = []
"""The arguments of `record` and similar operators, in order of the calls."""

_LIBRARY: Any = torch.library.Library("fe_ops", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's


# --- writing arguments


@custom_op("fe_ops::add_into", mutates_args=("x",))
def _add_into(x: Tensor, y: Tensor) -> None:
    x.add_(y)


@custom_op("fe_ops::scale_all", mutates_args=("xs",))
def _scale_all(xs: Sequence[Tensor], factor: float) -> None:
    for x in xs:
        x.mul_(factor)


@custom_op("fe_ops::shift", mutates_args=("x", "other"))
def _shift(x: Tensor, other: Tensor | None, by: int = 2) -> None:
    x.add_(by)
    if other is not None:
        other.sub_(by)


@custom_op("fe_ops::step", mutates_args=("x",))
def _step(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return x * y


@_step.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(x)


@custom_op("fe_ops::step_both", mutates_args=("x", "y"))
def _step_both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x.add_(1)
    y.mul_(2)
    return x + y, x - y


@_step_both.register_fake
def _(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


# --- results of every kind


@custom_op("fe_ops::multiples", mutates_args=())
def _multiples(x: Tensor, count: int) -> list[Tensor]:
    return [x * i for i in range(count)]


@_multiples.register_fake
def _(x: Tensor, count: int) -> list[Tensor]:
    return [torch.empty_like(x) for _ in range(count)]


@custom_op("fe_ops::twice_the_length", mutates_args=())
def _twice_the_length(x: Tensor) -> int:
    return x.size(0) * 2


@_twice_the_length.register_fake
def _(x: Tensor) -> int:
    return torch.library.get_ctx().new_dynamic_size()  # type: ignore[return-value]  # a symbolic int


@custom_op("fe_ops::shortened", mutates_args=())
def _shortened(x: Tensor) -> tuple[Tensor, int, Tensor]:
    return x * 2, x.size(0) - 1, x[1:].clone()


@_shortened.register_fake
def _(x: Tensor) -> tuple[Tensor, int, Tensor]:
    size = torch.library.get_ctx().new_dynamic_size()
    return torch.empty_like(x), size, x.new_empty(size)  # type: ignore[return-value]  # a symbolic int


@custom_op("fe_ops::constants", mutates_args=())
def _constants(x: Tensor) -> tuple[Tensor, int]:
    return x * 2, 3


@_constants.register_fake
def _(x: Tensor) -> tuple[Tensor, int]:
    return torch.empty_like(x), 3


@custom_op("fe_ops::factor", mutates_args=())
def _factor(x: Tensor) -> float:
    return 2.5


@_factor.register_fake
def _(x: Tensor) -> float:
    return 2.5


@custom_op("fe_ops::is_small", mutates_args=())
def _is_small(x: Tensor) -> bool:
    return True


@_is_small.register_fake
def _(x: Tensor) -> bool:
    return True


@custom_op("fe_ops::every_argument", mutates_args=())
def _every_argument(
    x: Tensor,
    i: int,
    f: float,
    flag: bool,
    text: str,
    dtype: torch.dtype,
    device: torch.device,
    ints: Sequence[int],
    floats: Sequence[float],
    tensor: Tensor | None,
    number: int | None,
    tensors: Sequence[Tensor],
) -> Tensor:
    assert flag
    assert text == "quotes \"' and\nlines é"
    assert device.type == "cpu"
    assert tensor is None
    assert number is None
    return (x * i + f + sum(ints) + sum(floats) + sum(t.sum() for t in tensors)).to(dtype)


@_every_argument.register_fake
def _(x: Tensor, *args: Any) -> Tensor:
    return torch.empty_like(x, dtype=args[4])


_TAGS: dict[str, torch.Tag] = torch.Tag.__members__  # type: ignore[assignment]  # a mapping by name
_OUT = tuple(tag for name, tag in _TAGS.items() if name == "out")  # torch 2.11 has no such tag


def _define(schema: str, kernel: Any, fake: Any, *tags: torch.Tag) -> None:
    name = schema[: schema.index("(")]
    _LIBRARY.define(schema, tags=tags)
    _LIBRARY.impl(name, kernel, "CPU")
    torch.library.register_fake(f"fe_ops::{name}", fake, lib=_LIBRARY)


_define(
    "defaults(Tensor x, int a=1, *, float b=2., str c='k') -> Tensor",
    lambda x, a=1, *, b=2.0, c="k": x * a + b + len(c),
    lambda x, a=1, *, b=2.0, c="k": torch.empty_like(x),
)
_define(
    "sum_of(Tensor x, Tensor?[] ys) -> Tensor",
    lambda x, ys: x + sum(y for y in ys if y is not None),
    lambda x, ys: torch.empty_like(x),
)
_define(
    "nested(Tensor[] xs) -> (Tensor[], Tensor)",
    lambda xs: ([x + 1 for x in xs], xs[0] * 2),
    lambda xs: ([torch.empty_like(x) for x in xs], torch.empty_like(xs[0])),
)


# --- out variants, which torch calls with its own buffers


def _mixed(x: Tensor, n: int, y: Tensor) -> Tensor:
    return x * n + y


def _listed(xs: Sequence[Tensor], y: Tensor | None, factor: float) -> Tensor:
    total = torch.stack(tuple(xs)).sum(0) * factor
    return total if y is None else total + y


_define("mixed(Tensor x, int n, Tensor y) -> Tensor", _mixed, lambda x, n, y: torch.empty_like(x))
_define(
    "mixed.out(Tensor x, int n, Tensor y, *, Tensor(a!) out) -> Tensor(a!)",
    lambda x, n, y, *, out: out.copy_(_mixed(x, n, y)),
    lambda x, n, y, *, out: out,
    *_OUT,
)
_define(
    "listed(Tensor[] xs, Tensor? y, float f) -> Tensor", _listed, lambda xs, y, f: torch.empty_like(xs[0])
)
_define(
    "listed.out(Tensor[] xs, Tensor? y, float f, *, Tensor(a!) out) -> Tensor(a!)",
    lambda xs, y, f, *, out: out.copy_(_listed(xs, y, f)),
    lambda xs, y, f, *, out: out,
    *_OUT,
)
_define(
    "halves(Tensor x, int n=2) -> (Tensor, Tensor)",
    lambda x, n=2: (x[:2] * n, x[2:] * n),
    lambda x, n=2: (torch.empty_like(x[:2]), torch.empty_like(x[2:])),
)


def _halves_out(x: Tensor, n: int = 2, *, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    return low.copy_(x[:2] * n), high.copy_(x[2:] * n)


_define(
    "halves.out(Tensor x, int n=2, *, Tensor(a!) low, Tensor(b!) high) -> (Tensor(a!), Tensor(b!))",
    _halves_out,
    lambda x, n=2, *, low, high: (low, high),
    *_OUT,
)


# --- layouts


def _strides(x: Tensor) -> Tensor:
    return torch.tensor(x.stride())


def _fake_strides(x: Tensor) -> Tensor:
    return torch.empty(x.dim(), dtype=torch.int64)


for _tag in (
    torch.Tag.needs_exact_strides,
    torch.Tag.needs_fixed_stride_order,
    torch.Tag.needs_contiguous_strides,
    torch.Tag.flexible_layout,
):
    _define(f"{_tag.name}(Tensor x) -> Tensor", _strides, _fake_strides, _tag)


# --- effects


@custom_op("fe_ops::record", mutates_args=())
def _record(x: Tensor, tag: str) -> None:
    LOG.append((tag, x.sum().item()))


@_record.register_fake
def _(x: Tensor, tag: str) -> None:
    return None


@custom_op("fe_ops::recorded", mutates_args=())
def _recorded(x: Tensor, tag: str) -> Tensor:
    LOG.append((tag, x.sum().item()))
    return x + 1


@_recorded.register_fake
def _(x: Tensor, tag: str) -> Tensor:
    return torch.empty_like(x)


@custom_op("fe_ops::recorded_twice", mutates_args=())
def _recorded_twice(x: Tensor) -> tuple[Tensor, Tensor]:
    LOG.append(("twice", x.sum().item()))
    return x + 1, x * 2


@_recorded_twice.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


for _name in ("record", "recorded", "recorded_twice"):
    torch.library._register_effectful_op(f"fe_ops::{_name}", EffectType.ORDERED)

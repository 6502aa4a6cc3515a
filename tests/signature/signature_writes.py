"""Models that write to their arguments, move them, or have arguments that share memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.signature.signature_case import Call, case, two, x

# Any in this file: models, their arguments and results.


# --- writes


@case()
def written(x: Tensor) -> Any:
    x.mul_(2)
    return x + 1


@case()
def written_and_returned(x: Tensor) -> Any:
    x.mul_(2)
    return x, x.view(-1), x[1]


@case()
def written_through_a_view(x: Tensor) -> Any:
    y = x[1]
    y.mul_(2)
    return y, x.view(-1)


@case()
def written_views_of_an_intermediate(x: Tensor) -> Any:
    y = x + 1
    z = y[0]
    z.mul_(2)
    return y, z


@case(two)
def swapped(x: Tensor, y: Tensor) -> Any:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


@case(lambda: ((x()[1:, 1:],), {}))
def written_slice(x: Tensor) -> Any:
    x.mul_(2)
    return x[:1]


@case(lambda: ((x().t(),), {}))
def written_transposed(x: Tensor) -> Any:
    x.mul_(2)


@case()
def pieces_of_a_written_input(x: Tensor) -> Any:
    x.mul_(2)
    return x.chunk(2)


@case(two)
def out_argument(x: Tensor, out: Tensor) -> Any:
    return torch.add(x, 1, out=out)


# --- moves


@case()
def transposed_in_place(x: Tensor) -> Any:
    x.transpose_(0, 1)
    return x + 1


@case()
def unsqueezed_and_written(x: Tensor) -> Any:
    x.unsqueeze_(0)
    x.mul_(2)
    return x


@case(lambda: ((x()[1:, 1:],), {}))
def moved_slice(x: Tensor) -> Any:
    x.t_()
    x.mul_(2)
    return x, x[0]


@case()
def moved_there_and_back(x: Tensor) -> Any:
    x.t_()
    x.t_()
    return x + 1


@case()
def squeezed_view(x: Tensor) -> Any:
    y = x[1:2]
    y.squeeze_(0)
    y.mul_(2)
    return y


@case()
def made_smaller(x: Tensor) -> Any:
    x.resize_(2, 3)
    return x + 1


@case()
def strided_in_place(x: Tensor) -> Any:
    x.as_strided_((2, 2), (3, 1), 1)
    return x


@case(two, ours=("versions",), reason="the memory of y is written, of which eager mode tells nobody")
def given_another_storage(x: Tensor, y: Tensor) -> Any:
    x.set_(y)  # type: ignore[call-overload]  # the stubs know storages only
    x.mul_(2)
    return x


# --- arguments that share memory


def _same() -> Call:
    value = x()
    return (value, value), {}


def _same_memory() -> Call:
    value = x()
    return (value, value.detach()), {}


def _overlapping() -> Call:
    value = torch.arange(12.0)
    return (value[:8], value[4:]), {}


def _apart() -> Call:
    value = torch.arange(24.0).view(4, 6)
    return (value[:, :3], value[:, 3:]), {}


@case(_same)
def same_tensor_read(x: Tensor, y: Tensor) -> Any:
    return x + 1, y.view(-1), y


@case(_same)
def same_tensor_written(x: Tensor, y: Tensor) -> Any:
    x.mul_(2)
    return x + y, y


@case(_same_memory, stock=("versions", "views"), reason="torch makes a base of its own for both")
def same_memory_written(x: Tensor, y: Tensor) -> Any:
    x.mul_(2)
    return x + y, y.view(-1)


@case(_overlapping)
def overlapping_read(x: Tensor, y: Tensor) -> Any:
    return x + y, y[:2]


@case(_overlapping, stock_fails="incorrect out shape")
def overlapping_written(x: Tensor, y: Tensor) -> Any:
    x.mul_(2)
    return x + y, y, x[1:]


@case(_overlapping)
def overlapping_both_written(x: Tensor, y: Tensor) -> Any:
    x.mul_(2)
    y.add_(1)
    return x + y


@case(_apart)
def apart_written(x: Tensor, y: Tensor) -> Any:
    x.mul_(2)
    return x + y, y


# --- gradients (under no_grad), and inference tensors


def _with_gradient() -> Call:
    return (x().requires_grad_(),), {}


def _inference() -> Call:
    with torch.inference_mode():
        return (x(),), {}


@case(_with_gradient)
def wants_a_gradient(x: Tensor) -> Any:
    return x + 1, x.view(-1), x.detach(), x


@case(_with_gradient)
def wants_a_gradient_and_is_written(x: Tensor) -> Any:
    x.mul_(2)
    return x


@case(_inference)
def inference_tensor(x: Tensor) -> Any:
    return x + 1

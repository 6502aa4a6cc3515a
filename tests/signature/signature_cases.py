"""Models for the signature around a program: one list for the comparison with eager and torch.compile, and
for the test in a separate process.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import tests.signature.signature_writes  # noqa: F401  # adds its own cases to the list
from tests.common.torch_versions import since
from tests.signature.signature_case import CASES, Call, Case, case, one, pair, two, x

# Any in this file: models, their arguments and results.


# --- results


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Point:
    """A class that is not registered."""

    a: Any
    b: Any


class Box:
    """Registered below."""

    def __init__(self, items: list[Any], label: str) -> None:
        self.items, self.label = items, label


pytree.register_pytree_node(
    Box,
    lambda b: (b.items, b.label),
    lambda items, label: Box(list(items), label),
    serialized_type_name="tests.signature.signature_cases.Box",
    flatten_with_keys_fn=lambda b: ([(pytree.SequenceKey(i), x) for i, x in enumerate(b.items)], b.label),
)


@case()
def plain(x: Tensor) -> Any:
    return x + 1


@case()
def containers(x: Tensor) -> Any:
    y = x + 1
    return {
        "a": [y, None, 3],
        "b": ("text", True, 2.5),
        "c": Pair(y, OrderedDict(k=y)),
        4: torch.Size([2, 3]),
    }


@case()
def data_classes(x: Tensor) -> Any:
    return Point(x + 1, [Point(None, 3)])


@case(lambda: ((Point(x(), [x()]),), {}))
def data_class_argument(p: Any) -> Any:
    return Point(p.b[0], p.a + 1)


@case(lambda: ((Box([x()], "lid"),), {}))
def registered_container(box: Any) -> Any:
    return Box([box.items[0] + 1, box.items[0]], box.label)


@case(lambda: ((), {}))
def nothing_at_all() -> Any:
    return 3, None


@case(lambda: ((), {}), calls=2)
def no_inputs() -> Any:
    return torch.ones(4, 3)


@case(two)
def unused_input(x: Tensor, y: Tensor) -> Any:
    return x + 1


@case(calls=2)
def literal_result(x: Tensor) -> Any:
    return torch.tensor([1.0, 2.0]), x + 1


@case(lambda: ((x(),), {"flag": True, "mode": "sum"}))
def options(x: Tensor, scale: float = 1.0, *, flag: bool, mode: str = "mean", other: Any = None) -> Any:
    return x + 1 if flag and mode == "sum" and other is None else x - scale


# --- aliases


@case()
def the_input(x: Tensor) -> Any:
    return x


@case()
def views_of_the_input(x: Tensor) -> Any:
    return x.view(-1), x.t(), x[1:, :2], x.unsqueeze(0), x.expand(2, 4, 3)


@case()
def several_views_of_the_input(x: Tensor) -> Any:
    return [*torch.split(x, 2), *x.unbind(1)], x.detach(), x.view_as(x)


_COPIED = () if since("2.15") else ("identity", "sharing", "views", "writes")


@case(
    stock=_COPIED,
    ours=_COPIED,
    reason="torch before 2.15 makes a copy of what dropout leaves alone" if _COPIED else "",
)
def no_operation(x: Tensor) -> Any:
    return x.contiguous(), x.float(), x.to(torch.float32), nn.functional.dropout(x, 0.5, training=False)


@case(lambda: ((torch.view_as_complex(x().view(6, 2).clone()),), {}))
def parts_of_complex(z: Tensor) -> Any:
    return z.real, z.imag, torch.view_as_real(z)


@case()
def other_dtype(x: Tensor) -> Any:
    return x.view(torch.int32), x.view(torch.uint8)


@case(lambda: ((x()[1:, 1:],), {}))
def view_of_a_slice(x: Tensor) -> Any:
    return x[1:], x + 1


@case()
def view_of_an_intermediate(x: Tensor) -> Any:
    return (x + 1).t()


@case()
def views_of_an_intermediate(x: Tensor) -> Any:
    y = x + 1
    return y.t(), y[0]


@case()
def an_intermediate_and_its_view(x: Tensor) -> Any:
    y = x + 1
    return y.view(-1), y, y


@case()
def an_intermediate_twice(x: Tensor) -> Any:
    y = x + 1
    return y, y.view(4, 3), y.detach()


@case()
def pieces_of_an_intermediate(x: Tensor) -> Any:
    return (x + 1).chunk(2)


# --- state


class Holder(nn.Module):
    """A parameter and a buffer."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(x())
        self.register_buffer("count", torch.zeros(4, 3))


@case(calls=2)
class Counts(Holder):
    def forward(self, x: Tensor) -> Any:
        self.count.add_(1)
        return x + self.count


@case(calls=2)
class ReturnsItsState(Holder):
    def forward(self, x: Tensor) -> Any:
        return self.weight, self.count, self.weight.view(-1), x + self.weight


@case(calls=2)
class ReturnsWhatItWrites(Holder):
    def forward(self, x: Tensor) -> Any:
        self.count.add_(1)
        return self.count, self.count.view(-1), x + self.count


@case(calls=2)
class WritesItsParameter(Holder):
    def forward(self, x: Tensor) -> Any:
        self.weight.mul_(2)
        return x + self.weight


@case(calls=2)
class AssignsABuffer(Holder):
    def forward(self, x: Tensor) -> Any:
        self.count = self.count + 1
        return x + self.count


class PlainAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.ones(4, 3)

    def forward(self, x: Tensor) -> Any:
        return x + self.table, self.table


CASES["PlainAttribute"] = Case(name="PlainAttribute", module=PlainAttribute, make=one, calls=2)


# --- tensors that wrap others


def _wrapped() -> Call:
    return (pair(x(), x() * 2),), {}


def _nested() -> Call:
    return (pair(pair(x(), x() * 2), pair(x() * 3, x())),), {}


@case(_wrapped, ours=("views",), reason="a view of a wrapper wraps views, and is not a view itself")
def wrapped(t: Any) -> Any:
    return t + 1, t, t.view(-1), 4


@case(_wrapped)
def wrapped_and_written(t: Any) -> Any:
    t.mul_(2)
    return t, t + 1


@case(_nested)
def wrapped_twice(t: Any) -> Any:
    return t + 1


@case(calls=2)
class WrappedParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(pair(x(), x() * 2), requires_grad=False)

    def forward(self, x: Tensor) -> Any:
        return x + self.weight, self.weight


# --- random numbers


@case(
    calls=2,
    stock=("results", "writes"),
    ours=("results", "writes"),
    reason="torch draws random numbers by operators of its own; its C++ code is held against ours by itself",
)
def random(x: Tensor) -> Any:
    return torch.rand_like(x), torch.randn(4, 3), nn.functional.dropout(x, 0.5)

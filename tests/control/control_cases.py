"""Control flow that torch can compile: functions of a `Flow`, so that the same can run in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.control.control_ops import Flow, less, noise, number, plus, positive, rows, say, times, total

# Any in this file: operands and results of branches and bodies.

_MINOR = int(torch.__version__.split(".")[1])


_AT_LEAST_5 = Dim("rows", min=5, max=64)
_ROWS = Dim("rows", min=2, max=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case: `make(flow)` returns a function; `args` are calls of it, the first one the example.

    `sources` are the supported sources, each from this minor version of torch 2 on.
    """

    make: Callable[[Flow], Callable[..., Any]]
    args: tuple[tuple[Any, ...], ...]
    dynamic: Any = None
    sources: Mapping[str, int] = field(default_factory=lambda: {"export": 0, "compile": 0})

    def has(self, source: str) -> bool:
        """Returns whether the installed torch supports this source."""
        return source in self.sources and self.sources[source] <= _MINOR


def _counted(flow: Flow, n: Any, step: Callable[..., Any], *carried: Any) -> Any:
    """`step` on the carried values, `n` times; the counter is a carried value too."""

    def body(i: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        return (plus(i, number(1)), *step(*values))

    return flow.loop(lambda i, *_: less(i, n), body, (number(0), *carried))[1:]


def _x(rows_: int = 4, *, negative: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(rows_)
    return torch.rand(rows_, 3, generator=generator) - (2.0 if negative else 0.0)


def _square(seed: int = 0) -> Tensor:
    return torch.rand(3, 3, generator=torch.Generator().manual_seed(seed))


_BOTH = ((_x(6),), (_x(7, negative=True),))
_TRIPS = ((torch.tensor(3), _x(6)), (torch.tensor(0), _x(7)), (torch.tensor(1), _x(5)))
_BY_ROWS = ({0: _ROWS},)
_N_BY_ROWS = (None, {0: _ROWS})


# --- branches


def _predicate(flow: Flow) -> Any:
    return lambda x, w: flow.cond(positive(x), lambda x, w: x @ w, lambda x, w: times(x, 2), (x, w))


def _size(flow: Flow) -> Any:
    return lambda x: flow.cond(x.shape[0] > 6, lambda x: times(x, 3), lambda x: plus(x, x), (x,))


def _symbol(flow: Flow) -> Any:
    def function(x: Tensor, y: Tensor) -> Any:
        n = y.shape[0]
        return flow.cond(positive(x), lambda x: times(x, n), lambda x: times(x, x.shape[0] * n), (x,))

    return function


def _unequal(flow: Flow) -> Any:
    def function(x: Tensor) -> Any:
        y = flow.cond(positive(x), lambda x: rows(x, 3), lambda x: rows(x, 5), (x,))
        return times(y, y.shape[0]), y.shape[0]

    return function


def _strides(flow: Flow) -> Any:
    def function(x: Tensor) -> Any:
        y = times(x, 2)
        return flow.cond(positive(x), lambda y: times(y, 2).t(), lambda y: plus(y, y).t(), (y.t(),))

    return function


def _offset(flow: Flow) -> Any:
    def function(x: Tensor) -> Any:
        y = flow.cond(positive(x), lambda x: times(x, 2)[1:], lambda x: plus(x, x)[1:], (x,))
        return y + 1

    return function


def _nested(flow: Flow) -> Any:
    def inner(x: Tensor) -> Any:
        return flow.cond(x.shape[0] > 6, lambda x: times(x, 2), lambda x: times(x, x.shape[0]), (x,))

    return lambda x: flow.cond(positive(x), inner, lambda x: plus(x, x), (x,))


def _item(flow: Flow) -> Any:
    def true(x: Tensor, n: Tensor) -> Any:
        k = n.item()
        return times(x, k)

    return lambda x, n: flow.cond(positive(x), true, lambda x, n: plus(x, x), (x, n))


def _item_outside(flow: Flow) -> Any:
    def function(x: Tensor, n: Tensor) -> Any:
        k = n.item()
        torch._check(k >= 2)  # type: ignore[no-untyped-call]  # torch's
        torch._check(k <= x.shape[0])  # type: ignore[no-untyped-call]  # torch's
        y = rows(x, k)
        return flow.cond(positive(x), lambda y: times(y, k), lambda y: plus(y, y), (y,))

    return function


def _nonzero(flow: Flow) -> Any:
    return lambda x: flow.cond(positive(x), lambda x: total(x.nonzero()), lambda x: total(x), (x,))


def _written(flow: Flow) -> Any:
    def true(x: Tensor, y: Tensor) -> Any:
        y.add_(1)
        return plus(x, y)

    def function(x: Tensor, y: Tensor) -> Any:
        made = flow.cond(positive(x), true, lambda x, y: times(x, 2), (x, y))
        return plus(made, y)

    return function


def _literals(flow: Flow) -> Any:
    def true(x: Tensor) -> Any:
        return plus(x, torch.tensor([[1.0, 2.0, 3.0]]))

    return lambda x: flow.cond(positive(x), true, lambda x: plus(x, torch.tensor([[4.0, 5.0, 6.0]])), (x,))


def _effects(flow: Flow) -> Any:
    def function(x: Tensor) -> Any:
        y = flow.cond(positive(x), lambda x: say(say(x)), lambda x: times(x, 2), (say(x),))
        return say(y)

    return function


def _random(flow: Flow) -> Any:
    def function(x: Tensor) -> Any:
        y = flow.cond(positive(x), lambda x: plus(noise(x), noise(x)), lambda x: times(x, 2), (noise(x),))
        return plus(y, noise(x))

    return function


class _Layers(nn.Module):
    """Two layers, of which the data choose one."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Any:
        return self.flow.cond(positive(x), lambda x: self.a(x), lambda x: self.b(x), (x,))


# --- loops


def _carried(flow: Flow) -> Any:
    return lambda n, x: _counted(flow, n, lambda y: (times(y, 2),), x)


def _captured(flow: Flow) -> Any:
    return lambda n, x, w: _counted(flow, n, lambda y: (y @ w,), x)


def _views(flow: Flow) -> Any:
    return lambda n, x: _counted(flow, n, lambda y: (plus(y.t(), y.t()).t(),), times(x, 2).t())


def _swapped(flow: Flow) -> Any:
    return lambda n, x: _counted(flow, n, lambda y, z: (z.clone(), times(y, 2)), x, times(x, 3))


def _rows_of_a_loop(flow: Flow) -> Any:
    return lambda n, x: _counted(flow, n, lambda y: (times(y, x.shape[0]),), times(x, 1))


def _loops(flow: Flow) -> Any:
    def step(y: Tensor, x: Tensor) -> Any:
        return _counted(flow, number(2), lambda z: (plus(z, x),), y)

    return lambda n, x: _counted(flow, n, lambda y: step(times(y, 2), x), times(x, 1))


class _Count(nn.Module):
    """Counts trips in a buffer."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow
        self.register_buffer("trips", torch.zeros(1, 3))

    def forward(self, n: Tensor, x: Tensor) -> Any:
        def step(y: Tensor) -> tuple[Tensor]:
            self.get_buffer("trips").add_(1)
            return (plus(y, self.get_buffer("trips")),)

        return *_counted(self.flow, n, step, x), times(self.get_buffer("trips"), 1)


def _branch_in_loop(flow: Flow) -> Any:
    def step(y: Tensor, x: Tensor) -> Any:
        return flow.cond(positive(y), lambda y: plus(y, x), lambda y: times(y, x.shape[0]), (y,))

    return lambda n, x: _counted(flow, n, lambda y: (step(y, x),), times(x, 1))


def _loop_in_branch(flow: Flow) -> Any:
    def true(x: Tensor) -> Any:
        return _counted(flow, number(3), lambda y: (times(y, 2),), times(x, 1))[0]

    return lambda x: flow.cond(positive(x), true, lambda x: plus(x, x), (x,))


def _map_rows(flow: Flow) -> Any:
    return lambda x, w: flow.map(lambda row, w: times(row @ w, 2), x, w)


def _scan_rows(flow: Flow) -> Any:
    return lambda x, w: flow.scan(lambda c, row: (times(c, 2), plus(c, row @ w)), x[0] @ w, x)


# --- regions; those that are called once, torch writes out


def _twice(flow: Flow) -> Any:
    region = flow.region(lambda x, w: times(x @ w, 2))
    return lambda x, a, b: region(region(region(x, a), b), a)


def _sizes_of_regions(flow: Flow) -> Any:
    region = flow.region(lambda x: times(x, x.shape[0]))
    return lambda x, y: (region(x), region(y))


def _symbols_in_regions(flow: Flow) -> Any:
    region = flow.region(lambda x: plus(total(x.nonzero()), total(x)))
    return lambda x: plus(region(x), region(times(x, 2)))


def _branch_in_region(flow: Flow) -> Any:
    region = flow.region(lambda x: flow.cond(positive(x), lambda x: times(x, 2), lambda x: plus(x, x), (x,)))
    return lambda x: region(times(region(x), -1))


def _region_in_branch(flow: Flow) -> Any:
    region = flow.region(lambda x: times(x, x.shape[0]))
    return lambda x: plus(
        flow.cond(positive(x), lambda x: region(x), lambda x: region(plus(x, x)), (x,)), region(x)
    )


def _region_in_loop(flow: Flow) -> Any:
    region = flow.region(lambda x: times(x, 2))
    return lambda n, x: _counted(flow, n, lambda y: (region(region(y)),), times(x, 1))


def _region_that_writes(flow: Flow) -> Any:
    def adds(x: Tensor) -> Any:
        x.add_(1)
        return times(x, 2)

    region = flow.region(adds)
    return lambda x: plus(region(x), region(x))


def _effects_in_regions(flow: Flow) -> Any:
    region = flow.region(lambda x: times(say(x), 2))
    return lambda x: region(region(x))


_EXPORT, _COMPILE = {"export": 0}, {"compile": 0}
_NEWER = {"export": 13, "compile": 13}

CASES: dict[str, Case] = {
    "predicate": Case(
        make=_predicate, args=tuple((x, _square()) for (x,) in _BOTH), dynamic=({0: _ROWS}, None)
    ),
    "size": Case(make=_size, args=_BOTH, dynamic=_BY_ROWS),
    "symbol": Case(
        make=_symbol,
        args=((_x(6), _x(4)), (_x(7, negative=True), _x(5))),
        dynamic=({0: _ROWS}, {0: Dim("others", min=2, max=64)}),
    ),
    "unequal": Case(make=_unequal, args=_BOTH, dynamic=({0: _AT_LEAST_5},)),
    "strides": Case(make=_strides, args=_BOTH, dynamic=_BY_ROWS),
    "offset": Case(make=_offset, args=_BOTH, dynamic=({0: Dim("rows", min=3, max=64)},)),
    "nested": Case(make=_nested, args=_BOTH, dynamic=_BY_ROWS),
    "item": Case(make=_item, args=tuple((x, torch.tensor(3)) for (x,) in _BOTH), dynamic=({0: _ROWS}, None)),
    "item_outside": Case(
        make=_item_outside,
        args=tuple((x, torch.tensor(n)) for n, (x,) in enumerate(_BOTH, 3)),
        sources=_COMPILE,
    ),
    "nonzero": Case(make=_nonzero, args=_BOTH, dynamic=_BY_ROWS),
    "written": Case(
        make=_written,
        args=tuple((x, torch.ones(1, 3)) for (x,) in _BOTH),
        dynamic=({0: _ROWS}, None),
        sources=_NEWER,
    ),
    "literals": Case(make=_literals, args=_BOTH, dynamic=_BY_ROWS, sources=_EXPORT),
    "effects": Case(make=_effects, args=_BOTH, dynamic=_BY_ROWS),
    "random": Case(make=_random, args=_BOTH, dynamic=_BY_ROWS),
    "layers": Case(make=_Layers, args=_BOTH, dynamic=_BY_ROWS),
    "carried": Case(make=_carried, args=_TRIPS, dynamic=_N_BY_ROWS),
    "captured": Case(
        make=_captured, args=tuple((n, x, _square()) for n, x in _TRIPS), dynamic=(None, {0: _ROWS}, None)
    ),
    "views": Case(make=_views, args=_TRIPS, dynamic=_N_BY_ROWS),
    "swapped": Case(make=_swapped, args=_TRIPS, dynamic=_N_BY_ROWS),
    "rows_of_a_loop": Case(make=_rows_of_a_loop, args=_TRIPS, dynamic=_N_BY_ROWS),
    "loops": Case(make=_loops, args=_TRIPS, dynamic=_N_BY_ROWS),
    "count": Case(make=_Count, args=_TRIPS, dynamic=_N_BY_ROWS, sources=_NEWER),
    "branch_in_loop": Case(make=_branch_in_loop, args=_TRIPS, dynamic=_N_BY_ROWS),
    "loop_in_branch": Case(make=_loop_in_branch, args=_BOTH, dynamic=_BY_ROWS),
    "map": Case(make=_map_rows, args=tuple((x, _square()) for (x,) in _BOTH), dynamic=({0: _ROWS}, None)),
    "scan": Case(make=_scan_rows, args=tuple((x, _square()) for (x,) in _BOTH), dynamic=({0: _ROWS}, None)),
    "twice": Case(
        make=_twice,
        args=tuple((x, _square(1), _square(2)) for (x,) in _BOTH),
        dynamic=({0: _ROWS}, None, None),
    ),
    "sizes_of_regions": Case(
        make=_sizes_of_regions,
        args=((_x(6), _x(4)), (_x(5), _x(5))),
        dynamic=({0: _ROWS}, {0: Dim("others", min=2, max=64)}),
        # older torch confuses the second call with the first one
        sources={"export": 12, "compile": 0},
    ),
    "symbols_in_regions": Case(make=_symbols_in_regions, args=_BOTH, dynamic=_BY_ROWS),
    "branch_in_region": Case(make=_branch_in_region, args=_BOTH, dynamic=_BY_ROWS),
    "region_in_branch": Case(make=_region_in_branch, args=_BOTH, dynamic=_BY_ROWS, sources={"export": 12}),
    "region_in_loop": Case(make=_region_in_loop, args=_TRIPS, dynamic=_N_BY_ROWS),
    "region_that_writes": Case(make=_region_that_writes, args=_BOTH, dynamic=_BY_ROWS),
    "effects_in_regions": Case(make=_effects_in_regions, args=_BOTH, dynamic=_BY_ROWS),
}

"""Programs that communicate, and the process groups to capture and run them in.

Two or four processes run `CASES` (`collective_worker.py`). `fake_group` captures without any other process.
`lonely_group` runs without any other: an artifact captured by `lonely_artifact` can be executed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop
from torch.distributed import _functional_collectives

import inductor_frontend
from wrapper_ir.artifact import Artifact

# Any in this file: functions of any signature, with any results; torch leaves its operators untyped.
c10d: Any = torch.ops._c10d_functional
funcol: Any = _functional_collectives
check: Any = torch._check
WORLD = 2
GROUP = "0"
"""Name of the first group that a process creates."""
HAS_P2P = hasattr(c10d, "isend")
"""Messages between two processes are operators since torch 2.12."""
TRACES_OUT = not torch.__version__.startswith("2.11.")
"""Torch 2.11 refuses to trace out variants of collectives."""


@contextmanager
def fake_group(world: int = WORLD, rank: int = 0) -> Iterator[None]:
    """This process is one of `world`, of which the others do not exist: its collectives do nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # registers the backend

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def lonely_group(folder: Path) -> Iterator[None]:
    """A real group of this process alone. `folder` is for the file by which it is set up."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def lonely_artifact() -> tuple[Artifact, list[Any]]:
    """A small program with collectives of every form but messages, and flat arguments for it.

    It was captured for a group of one, under the name that `lonely_group` has: it runs there. Must be called
    without any group.
    """

    def model(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        dist.all_reduce(x)
        a, b = funcol.all_reduce_coalesced([x @ w, x + w], "sum", dist.group.WORLD)
        gathered = funcol.all_gather_tensor(a, 0, dist.group.WORLD)
        part = funcol.reduce_scatter_tensor(gathered, "sum", 0, dist.group.WORLD)
        if TRACES_OUT:
            out = c10d.all_gather_into_tensor_out(b, 1, GROUP, out=b.new_empty(b.shape))
        else:
            out = c10d.all_gather_into_tensor(b, 1, GROUP)
        first = funcol.broadcast(part, 0, dist.group.WORLD)
        rows = funcol.all_to_all_single(first, [4], [4], dist.group.WORLD)
        return c10d.wait_tensor(out) + rows, gathered

    args = (torch.randn(4, 4), torch.randn(4, 4))
    with fake_group(world=1):
        return inductor_frontend.capture(model, args), list(args)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCase:
    """A case: `make(rank)` returns a function and its arguments in the process of that rank.

    `dynamic` are the symbolic sizes of the arguments, in torch.export's form. `in_flight` marks a function
    that returns tensors without a wait. `options` are those of torch's compiler.
    """

    make: Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]]
    dynamic: Any = None
    in_flight: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def _numbers(rank: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 + rank)
    shared = torch.Generator().manual_seed(7)
    return torch.randn(4, 4, generator=generator), torch.randn(4, 4, generator=shared)


def _group() -> Any:
    return dist.group.WORLD


def _world() -> int:
    """Returns the number of processes, before the case's function is traced."""
    return dist.get_world_size()


def _all_reduce(rank: int) -> Any:
    return lambda x, w: funcol.all_reduce(x @ w, "sum", _group()) @ w, _numbers(rank)


def _all_reduce_of_an_input(rank: int) -> Any:
    def model(x: Tensor, w: Tensor) -> Tensor:
        dist.all_reduce(x)
        return x @ w

    return model, _numbers(rank)


def _rewritten_by_torch(rank: int) -> Any:
    """Calls functions that fill their arguments, as eager programs do."""
    rows = 4 * _world()

    def model(x: Tensor, w: Tensor) -> Any:
        whole, part, exchanged = x.new_empty(rows, 4), x.new_empty(4, 4), x.new_empty(4, 4)
        dist.all_gather_into_tensor(whole, x)
        dist.reduce_scatter_tensor(part, whole)
        dist.all_to_all_single(exchanged, x)
        return whole @ w, part @ w, exchanged @ w

    return model, _numbers(rank)


def _gather_and_scatter(rank: int) -> Any:
    def model(x: Tensor, w: Tensor) -> Any:
        whole = funcol.all_gather_tensor(x, 0, _group())
        return whole, funcol.reduce_scatter_tensor(whole, "sum", 0, _group()) @ w

    return model, _numbers(rank)


def _gather_of_any_size(rank: int) -> Any:
    def model(x: Tensor, w: Tensor) -> Any:
        return funcol.all_gather_tensor(x, 0, _group()) @ w

    return model, _numbers(rank)


def _coalesced(rank: int) -> Any:
    def model(x: Tensor, w: Tensor) -> Any:
        sums = funcol.all_reduce_coalesced([x, w], "sum", _group())
        wholes = funcol.all_gather_into_tensor_coalesced([x, sums[0]], _group())
        return sums, wholes, funcol.reduce_scatter_tensor_coalesced(wholes, "max", [0, 0], _group())

    return model, _numbers(rank)


_SENT = {2: ((3, 1), (2, 2)), 4: ((2, 1, 1, 0), (0, 2, 1, 1), (1, 0, 2, 1), (1, 1, 0, 2))}
"""By the number of processes, how many rows each sends to each."""


def _uneven_splits(rank: int) -> Any:
    table = _SENT[_world()]
    sent, received = [*table[rank]], [row[rank] for row in table]

    def model(x: Tensor, w: Tensor) -> Any:
        return funcol.all_to_all_single(x, received, sent, _group()) @ w

    return model, _numbers(rank)


def _splits_that_data_decides(rank: int) -> Any:
    def model(x: Tensor, sent: Tensor) -> Any:
        received = funcol.all_to_all_single(sent, None, None, _group())
        ins, outs = sent.tolist(), received.tolist()
        for n in (*ins, *outs):
            check(n >= 0)
            check(n <= 4)
        check(sum(ins) == x.size(0))
        return funcol.all_to_all_single(x, outs, ins, _group()), received

    return model, (_numbers(rank)[0], torch.tensor(_SENT[_world()][rank]))


def _broadcast(rank: int) -> Any:
    return lambda x, w: funcol.broadcast(x, 1, _group()) @ w, _numbers(rank)


def _out_argument(rank: int) -> Any:
    world = _world()

    def model(x: Tensor, w: Tensor) -> Any:
        whole = c10d.all_gather_into_tensor_out(x, world, GROUP, out=x.new_empty(4 * world, 4))
        rows = c10d.wait_tensor(whole) @ w
        part = c10d.reduce_scatter_tensor_out(rows, "sum", world, GROUP, out=x.new_empty(4, 4))
        return c10d.wait_tensor(part)

    return model, _numbers(rank)


def _in_buckets(rank: int) -> Any:
    """Torch merges two gathers: each process writes its part at its position in the result."""
    world = _world()

    def model(x: Tensor, w: Tensor) -> Any:
        a, b = (c10d.all_gather_into_tensor(t, world, GROUP) for t in (x, w))
        return c10d.wait_tensor(a), c10d.wait_tensor(b)

    return model, _numbers(rank)


def _in_flight_together(rank: int) -> Any:
    """Each is waited for once, not in the order of their starts; a view is waited for like its base."""
    world = _world()

    def model(x: Tensor, w: Tensor) -> Any:
        a = c10d.all_reduce(x, "sum", GROUP)
        b = c10d.all_gather_into_tensor(w, world, GROUP)
        c = x @ w
        d = c10d.wait_tensor(b.view(-1)[16:])
        return c10d.wait_tensor(c10d.wait_tensor(a)) @ c, d

    return model, _numbers(rank)


def _left_in_flight(rank: int) -> Any:
    world = _world()
    return lambda x, w: c10d.all_gather_into_tensor(x @ w, world, GROUP), _numbers(rank)


def _input_in_flight(rank: int) -> Any:
    return lambda x, w: c10d.wait_tensor(x) @ w, _numbers(rank)


def _another_group(rank: int) -> Any:
    group = dist.new_group([*range(_world())])
    return lambda x, w: funcol.all_reduce(x, "max", group) @ w, _numbers(rank)


def _done_when_it_returns(rank: int) -> Any:
    shard: Any = torch.ops._dtensor.shard_dim_alltoall
    columns = 4 // _world()
    return lambda x, w: shard(x, 0, 1, GROUP) @ w[:columns], _numbers(rank)


def _in_a_branch(rank: int) -> Any:
    """All processes take the same branch."""

    def model(p: Tensor, x: Tensor, w: Tensor) -> Any:
        return torch.cond(
            p, lambda x, w: funcol.all_reduce(x @ w, "sum", _group()), lambda x, w: x @ w.t(), (x, w)
        )

    return model, (torch.tensor(True), *_numbers(rank))


def _in_a_loop(rank: int) -> Any:
    """All processes go round as often."""
    loop: Any = while_loop

    def model(x: Tensor, w: Tensor) -> Any:
        def more(i: Tensor, y: Tensor) -> Tensor:
            return i < 3

        def body(i: Tensor, y: Tensor) -> Any:
            return i + 1, funcol.all_reduce(y @ w, "sum", _group()).tanh()

        return loop(more, body, (x.new_zeros((), dtype=torch.int64), x))[1]

    return model, _numbers(rank)


def _ring(rank: int) -> Any:
    """Each process sends to the next one; the received data fills an empty buffer."""
    after, before = (rank + 1) % _world(), (rank - 1) % _world()

    def model(x: Tensor, w: Tensor) -> Any:
        sent = c10d.isend(x, after, 0, GROUP)
        received = c10d.irecv(torch.empty_like(x), before, 0, GROUP)
        c10d.wait_tensor(sent)
        return c10d.wait_tensor(received) @ w

    return model, _numbers(rank)


def _cases() -> Iterator[tuple[str, CollectiveCase]]:
    rows = torch.export.Dim("rows", min=2, max=64)
    yield "all_reduce", CollectiveCase(make=_all_reduce)
    yield "all_reduce_of_an_input", CollectiveCase(make=_all_reduce_of_an_input)
    yield "rewritten_by_torch", CollectiveCase(make=_rewritten_by_torch)
    yield "gather_and_scatter", CollectiveCase(make=_gather_and_scatter)
    yield "gather_of_any_size", CollectiveCase(make=_gather_of_any_size, dynamic=({0: rows}, None))
    yield "coalesced", CollectiveCase(make=_coalesced)
    yield "uneven_splits", CollectiveCase(make=_uneven_splits)
    yield "splits_that_data_decides", CollectiveCase(make=_splits_that_data_decides)
    yield "broadcast", CollectiveCase(make=_broadcast)
    if TRACES_OUT:
        yield "out_argument", CollectiveCase(make=_out_argument)
    yield "in_buckets", CollectiveCase(make=_in_buckets, options={"bucket_all_gathers_fx": "all"})
    yield "in_flight_together", CollectiveCase(make=_in_flight_together)
    yield "left_in_flight", CollectiveCase(make=_left_in_flight, in_flight=True)
    yield "input_in_flight", CollectiveCase(make=_input_in_flight)
    yield "another_group", CollectiveCase(make=_another_group)
    yield "done_when_it_returns", CollectiveCase(make=_done_when_it_returns)
    yield "in_a_branch", CollectiveCase(make=_in_a_branch)
    yield "in_a_loop", CollectiveCase(make=_in_a_loop)
    if HAS_P2P:
        yield "ring", CollectiveCase(make=_ring)


CASES: Mapping[str, CollectiveCase] = MappingProxyType(dict(_cases()))

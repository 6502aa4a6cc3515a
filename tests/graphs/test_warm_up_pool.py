"""Warm-ups that allocate in the pool of torch's device, on a machine without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from wrapper_ir_torch import TorchGraphs, graphs


class Pools:
    """Pools by number: their count, and the pool of each warm-up."""

    def __init__(self) -> None:
        self.made = 0
        self.used: list[int] = []
        self.are_there = True

    def make(self, device: torch.device, *, is_reserve: bool) -> int:
        assert (device, is_reserve) == (torch.device("cuda:0"), True)
        self.made += 1
        return self.made

    @contextmanager
    def using(self, pool: int, device: torch.device) -> Iterator[None]:
        assert device == torch.device("cuda:0")
        self.used.append(pool)
        yield


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Pools:
    found = Pools()
    monkeypatch.setattr(graphs, "has_memory_pools", lambda: found.are_there)
    monkeypatch.setattr(graphs, "memory_pool", found.make)
    monkeypatch.setattr(graphs, "using_pool", found.using)
    monkeypatch.setattr(graphs, "forget_workspaces", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    for name in ("_cuda_isCurrentStreamCapturing", "_cuda_getCurrentRawStream"):
        monkeypatch.setattr(torch._C, name, lambda *_: 0, raising=False)
    return found


def number(value: float) -> tuple[Tensor, ...]:
    return (torch.tensor(value),)


def test_one_at_a_time_uses_the_pool(pools: Pools) -> None:
    """Nested ones, and those of other threads, run eagerly.

    A capture in another thread leaves the pool to it.
    """
    device = TorchGraphs("cuda:0")

    def outer() -> tuple[Tensor, ...]:
        with ThreadPoolExecutor(1) as other:
            found = other.submit(device.warm_up, lambda: number(1)).result(30)
            other.submit(device._give_back).result(30)
        return (*found, *device.warm_up(lambda: number(2)))

    assert [float(x) for x in device.warm_up(outer)] == [1, 2]
    assert [float(x) for x in device.warm_up(lambda: number(3))] == [3]
    assert (pools.made, pools.used) == (1, [1, 1])


def test_one_that_fails_leaves_the_pool_to_the_next_one(pools: Pools) -> None:
    device = TorchGraphs("cuda:0")

    def fail() -> tuple[Tensor, ...]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        device.warm_up(fail)
    device.warm_up(lambda: number(1))
    assert pools.used == [1, 1]


def test_each_graph_begins_another_pool(pools: Pools) -> None:
    device = TorchGraphs("cuda:0")
    for _ in range(2):
        device.warm_up(lambda: number(1))
        device._give_back()
    device._give_back()
    device.warm_up(lambda: number(1))
    assert pools.used == [1, 2, 3]


def test_an_allocator_without_pools(pools: Pools) -> None:
    pools.are_there = False
    assert [float(x) for x in TorchGraphs("cuda:0").warm_up(lambda: number(1))] == [1]
    assert not pools.used

"""The memory measurement counts bytes allocated during a run, independently of earlier profiles."""

from __future__ import annotations

import gc
from functools import partial

import torch
from torch import Tensor

from tests.common.compare import peak_bytes

BLOCK = 8192
COUNT = 200


def blocks() -> list[Tensor]:
    return [torch.empty(BLOCK, dtype=torch.uint8) for _ in range(COUNT)]


def test_the_highest_sum_counts() -> None:
    def run() -> None:
        first = torch.empty(3000, dtype=torch.uint8)
        second = torch.empty(500, dtype=torch.uint8)
        del first
        third = torch.empty(1000, dtype=torch.uint8)
        del second, third

    assert peak_bytes(run) == 3500


def test_what_is_kept_counts() -> None:
    kept: list[Tensor] = []
    assert peak_bytes(lambda: kept.extend(blocks())) == BLOCK * COUNT


def test_memory_from_before_does_not_count_when_it_goes() -> None:
    old = blocks()

    def run() -> None:
        old.clear()
        torch.empty(100_000, dtype=torch.uint8)

    assert peak_bytes(run) == 100_000


def test_addresses_that_an_earlier_profile_saw_do_not_count() -> None:
    """The profiler still has sizes for them, and reports them at their free, for any allocation."""
    seen: list[Tensor] = []
    peak_bytes(lambda: seen.extend(blocks()))
    addresses = {t.data_ptr() for t in seen}
    seen.clear()
    again = blocks()
    assert addresses & {t.data_ptr() for t in again}, "no address came again: the test shows nothing"

    def run() -> None:
        again.clear()
        torch.empty(100_000, dtype=torch.uint8)

    assert peak_bytes(run) == 100_000


def test_the_collector_runs_as_before() -> None:
    assert gc.isenabled()
    peak_bytes(gc.isenabled)
    assert gc.isenabled()


def test_workspaces_of_operators() -> None:
    """Memory that an operator frees before it returns counts only on request."""
    q = torch.randn(1, 2, 8, 8)
    run = partial(torch.nn.functional.scaled_dot_product_attention, q, q, q)
    run()
    assert peak_bytes(run, workspaces=False) == q.nbytes < peak_bytes(run)

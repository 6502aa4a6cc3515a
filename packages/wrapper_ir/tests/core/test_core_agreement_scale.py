"""Number of messages and time of agreement, over sockets and without torch: the model of docs/collectives.md.

`make conformance TESTS=packages/wrapper_ir/tests/core/test_core_agreement_scale.py ARGS=-s` prints the
numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from packages.wrapper_ir.tests.core.socket_store import SocketStore, serve
from packages.wrapper_ir.tests.core.store_bus import Bus

from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime import agree, compare_ranks

LINES = ("inputs: f32[8]", *(f"plan @main: {n}" for n in range(20)), "tuning: 1", "program: 1")


def _timed(size: int, one: Callable[[SocketStore], str]) -> tuple[Bus, list[str], float]:
    """Returns the answer of each process, and the seconds for all of them after connection."""
    bus = Bus(size, 120.0)
    with serve(bus) as port, ExitStack() as stack, ThreadPoolExecutor(size) as pool:
        stores = [stack.enter_context(closing(SocketStore(port, rank, size))) for rank in range(size)]
        begin = time.perf_counter()
        answers = [*pool.map(one, stores)]
        return bus, answers, time.perf_counter() - begin


def _agreeing(store: SocketStore) -> str:
    agree(store, "0", LINES)
    return ""


def _differing(store: SocketStore) -> str:
    """Gives the last process another result of tuning."""
    own = [line.replace("tuning: 1", "tuning: 2") for line in LINES]
    try:
        agree(store, "0", own if store.rank == store.size - 1 else LINES)
    except ExecutionError as error:
        return error.message
    return ""


def _message_seconds() -> float:
    """Returns the round-trip time of one message."""
    with serve(Bus(1)) as port, closing(SocketStore(port, 0, 1)) as store:
        begin = time.perf_counter()
        for _ in range(200):
            store.has("nothing")
        return (time.perf_counter() - begin) / 200


def _check(size: int) -> None:
    message = _message_seconds()
    bus, answers, seconds = _timed(size, _agreeing)
    assert answers == [""] * size
    assert bus.used == 5 * size
    _, reports, _ = _timed(size, _differing)
    assert all(f"rank 0 has `tuning: 1`, rank {size - 1} has `tuning: 2`" in text for text in reports)
    print(
        f"{size} processes: {bus.used} messages, {seconds * 1e3:.1f} ms, {seconds / message / size:.1f} messages' time a process"
    )


def test_a_few_processes() -> None:
    _check(8)


def test_artifacts_are_compared() -> None:
    bus, answers, _ = _timed(8, lambda store: str(len(compare_ranks(store, "0", LINES).ranks)))
    assert answers == ["8"] * 8
    assert bus.used == 5 * 8 - 4


@pytest.mark.conformance
@pytest.mark.parametrize("size", [64, 300])
def test_hundreds_of_processes(size: int) -> None:
    _check(size)

"""How many messages agreement takes, and how long, over sockets and without torch: the model of docs/collectives.md.

`make conformance TESTS=packages/wrapper_ir/tests/core/test_core_agreement_scale.py ARGS=-s` prints the numbers.
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
    """What each process was told, and the seconds that all took together, once they were connected."""
    bus = Bus(size, 120.0)
    with serve(bus) as port, ExitStack() as stack, ThreadPoolExecutor(size) as pool:
        stores = [stack.enter_context(closing(SocketStore(port, rank, size))) for rank in range(size)]
        begin = time.perf_counter()
        found = [*pool.map(one, stores)]
        return bus, found, time.perf_counter() - begin


def _agreeing(store: SocketStore) -> str:
    agree(store, "0", LINES)
    return ""


def _differing(store: SocketStore) -> str:
    """The last process has another choice of tuning."""
    own = [line.replace("tuning: 1", "tuning: 2") for line in LINES]
    try:
        agree(store, "0", own if store.rank == store.size - 1 else LINES)
    except ExecutionError as error:
        return error.message
    return ""


def _message_seconds() -> float:
    """How long one message takes, to and fro."""
    with serve(Bus(1)) as port, closing(SocketStore(port, 0, 1)) as store:
        begin = time.perf_counter()
        for _ in range(200):
            store.has("nothing")
        return (time.perf_counter() - begin) / 200


def _check(size: int) -> None:
    message = _message_seconds()
    bus, found, seconds = _timed(size, _agreeing)
    assert found == [""] * size
    assert bus.used == 5 * size
    _, told, _ = _timed(size, _differing)
    assert all(f"rank 0 has `tuning: 1`, rank {size - 1} has `tuning: 2`" in text for text in told)
    print(
        f"{size} processes: {bus.used} messages, {seconds * 1e3:.1f} ms, {seconds / message / size:.1f} messages' time a process"
    )


def test_a_few_processes() -> None:
    _check(8)


def test_artifacts_are_compared() -> None:
    bus, found, _ = _timed(8, lambda store: str(len(compare_ranks(store, "0", LINES).ranks)))
    assert found == ["8"] * 8
    assert bus.used == 5 * 8 - 4


@pytest.mark.conformance
@pytest.mark.parametrize("size", [64, 300])
def test_hundreds_of_processes(size: int) -> None:
    _check(size)

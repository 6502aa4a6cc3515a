"""Processes of a group that need one graph at the same time: one compiles it; if it fails or hangs, others go
on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inductor_frontend.backend import graph
from inductor_frontend.cache.graph_entry import CompiledGraph
from inductor_frontend.cache.symbols import SymbolState
from wrapper_ir_runtime.cache import CacheSettings, Store, open_cache

KEY = "a graph"


class _NotMade(Exception):
    """Raised in place of the lowering, which this test does not need."""


def _store(folder: Path, seconds: float) -> Store:
    """Opens the store as another process would: locks belong to open files, not to processes."""
    return open_cache(CacheSettings(folder=folder, wait_seconds=seconds)).store("graphs")


def _seconds_until_the_second(
    folder: Path, seconds: float, first: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> float:
    """Returns the seconds from the start of the first process's lowering to that of the second's."""
    monkeypatch.setattr(graph, "_has_peers", lambda: True)
    begun, times = threading.Event(), list[float]()

    def make_first() -> CompiledGraph:
        times.append(time.monotonic())
        begun.set()
        first()
        raise _NotMade

    def make_second() -> CompiledGraph:
        times.append(time.monotonic())
        raise _NotMade

    def once(make: Callable[[], CompiledGraph]) -> None:
        with pytest.raises(_NotMade):
            graph._compile_once(_store(folder, seconds), KEY, make, SymbolState(None))

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(once, make_first)
        assert begun.wait(30)
        pool.submit(once, make_second).result()
        one.result()
    return times[1] - times[0]


def test_the_second_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It compiles the graph if the first one fails."""
    assert 0.3 <= _seconds_until_the_second(tmp_path, 60, lambda: time.sleep(0.3), monkeypatch) < 30


def test_nobody_waits_longer_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one appears to hang."""
    assert 0.2 <= _seconds_until_the_second(tmp_path, 0.2, lambda: time.sleep(3), monkeypatch) < 2.9

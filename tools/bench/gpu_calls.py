"""Times of a call on a GPU, and calls as a graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

Model = Callable[..., Any]  # Any: arguments and results of a model


def call_seconds(run: Model, args: tuple[Any, ...], calls: int) -> tuple[float, float]:
    """Seconds of a call until it has finished, and until it has returned, both the best of a few."""
    whole, host = [], []
    for _ in range(calls):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run(*args)
        host.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
        whole.append(time.perf_counter() - begin)
    return min(whole), min(host)


def row_seconds(run: Model, args: tuple[Any, ...], calls: int) -> float:
    """Seconds of a call where each is queued while the device works on the one before."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        run(*args)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls


def recorded(run: Model, args: tuple[Any, ...]) -> Model:
    """Captures and replays a graph of the caller."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
    with torch.cuda.stream(side):
        run(*args)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(*args)
    return lambda *_: graph.replay()

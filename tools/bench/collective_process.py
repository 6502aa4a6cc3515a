"""A process of `bench_collectives`: its device, how it keeps step with the others, and the sides that it
compares.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from filelock import FileLock

from tools.bench.timing import alternate

# Any in this file: compiled callables, untyped parts of torch
_ROUNDS, _CALLS = 9, 10
PATIENCE = int(os.environ.get("BENCH_PATIENCE", "300"))
"""Seconds after which a process gives up waiting for another one."""
_LOWERED = "lower-collectives,plan-memory"
_OURS = {"backend": "wrapper_ir"}
_GRAPHS = "cuda-graphs{collectives=true}"


def ours(**options: object) -> dict[str, Any]:
    """Keywords of `torch.compile` for our backend with these options."""
    return {**_OURS, "options": {"on_unsupported": "error", **options}}


SIDES: Mapping[str, Mapping[str, Any]] = {
    "torch.compile": {},
    "ours": ours(),
    "ours, FX": ours(emitter="fx"),
    "ours, lowered": ours(passes=_LOWERED),
    "ours, graphs": ours(passes=_GRAPHS, cuda_graphs=4),
    "ours, lowered, graphs": ours(passes=f"lower-collectives,{_GRAPHS},plan-memory", cuda_graphs=4),
}
FUSED = "ours, fused matmuls"

Found = dict[str, Any]
Settings = Mapping[str, Any]
"""Keywords of `torch.compile`."""


class Rank:
    """This process, its device, and how it keeps step with the others."""

    def __init__(self, rank: int, world: int, folder: Path) -> None:
        self.rank, self.world, self.folder = rank, world, folder
        self.on_gpu = torch.cuda.device_count() >= world
        self.device = torch.device("cuda", rank) if self.on_gpu else torch.device("cpu")
        if self.on_gpu:
            torch.cuda.set_device(rank)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if self.on_gpu else "gloo",
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=PATIENCE),
        )
        self.calm = dist.new_group(backend="gloo", timeout=timedelta(seconds=600))
        """For keeping step: processes may wait long here, for the lock of another job."""
        self.dtype = torch.bfloat16 if self.on_gpu else torch.float32

    def wait(self) -> None:
        """Waits until all processes have finished their queued work."""
        if self.on_gpu:
            torch.cuda.synchronize()
        dist.barrier(self.calm)

    def seconds(self, run: Callable[[], object], calls: int = _CALLS) -> float:
        """Seconds of a call, of several that follow each other, until all processes have finished them."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        if self.on_gpu:
            torch.cuda.synchronize()
        own = torch.tensor(time.perf_counter() - begin, dtype=torch.float64)
        dist.all_reduce(own, dist.ReduceOp.MAX, self.calm)
        return float(own) / calls

    def memory(self) -> int:
        """Returns the bytes that torch's allocator has allocated for tensors of the device."""
        return torch.cuda.max_memory_allocated() if self.on_gpu else 0


def told(error: Exception) -> str:
    """Formats an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def timed(me: Rank, calls: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Seconds of each call by round; one group of processes measures at a time."""
    lock = FileLock(me.folder.parent / "lock")
    if me.rank == 0:
        lock.acquire()
    me.wait()
    times = alternate({side: partial(me.seconds, call) for side, call in calls.items()}, _ROUNDS)
    me.wait()
    if me.rank == 0:
        lock.release()
    return times

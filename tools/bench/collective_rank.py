"""One process of `bench_collectives`: runs a model or a measurement on all sides, in lockstep with the
others.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives

from tests.common.parallel_models import ParallelMlp, SequenceMlp
from tools.bench.collective_process import FUSED, SIDES, Found, Rank, ours, timed, told
from tools.bench.collective_training import fsdp_training, gpt, gpt_training

# Any in this file: compiled callables, untyped parts of torch
_funcol: Any = _functional_collectives
_TOLERANCE = 3e-2
_WITH_FUSED: Mapping[str, Mapping[str, Any]] = {
    **SIDES,
    FUSED: ours(passes="lower-collectives{fused-matmuls=true},plan-memory"),
}
"""Also with matmuls fused with collectives, if a job has any."""
SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 18, 1 << 20)
"""Bytes of the all-reduces whose latency is measured."""


def _compiled(
    me: Rank,
    model: Callable[..., Any],
    check: Callable[[Callable[..., Any]], None],
    sides: Mapping[str, Mapping[str, Any]],
) -> Found:
    """Each side, checked; `failed` has those that some process could not do, and why."""
    runs: dict[str, Callable[..., Any]] = {"eager": model}
    failed: dict[str, str] = {}
    names = os.environ.get("BENCH_SIDES", "").split(";")
    for side, settings in sides.items():
        if names != [""] and side not in names:
            continue
        torch._dynamo.reset()
        why = ""
        try:
            run = torch.compile(model, fullgraph=True, **settings)
            check(run)
        except Exception as error:  # a side that fails must not end the run
            why = told(error)
        reasons: list[str | None] = [None] * me.world
        dist.all_gather_object(reasons, why, me.calm)
        if any(reasons):
            failed[side] = next(text for text in reasons if text)
        else:
            runs[side] = run
    return {"runs": runs, "failed": failed}


def _inference(
    me: Rank, model: nn.Module, args: tuple[Tensor, ...], sides: Mapping[str, Mapping[str, Any]] = SIDES
) -> Found:
    """Times of a call by each side; every side's results are eager mode's."""
    with torch.no_grad():
        want = model(*args)

        def check(run: Callable[..., Any]) -> None:
            for _ in range(4):  # the first ones of a graph are not replays
                _require_close(run(*args), want)

        result = _compiled(me, model, check, sides)
        calls = {side: partial(run, *args) for side, run in result["runs"].items()}
        return {"failed": result["failed"], "times": timed(me, calls)}


def _require_close(got: Tensor, want: Tensor) -> None:
    """In the mean over all elements: sums have another order, and bfloat16 has 8 bits."""
    error = float((got.float() - want.float()).norm() / want.float().norm())
    if not error <= _TOLERANCE:
        raise AssertionError(f"the result is {error:.2g} away from eager mode's")


def mlp(me: Rank) -> Found:
    """8 layers; 128 KiB are summed in each, 8 KiB on a CPU."""
    torch.manual_seed(me.rank)
    width = 1024 if me.on_gpu else 32
    model = ParallelMlp(8, width, 4 * width, me.world).to(me.device, me.dtype).eval()
    x = torch.randn(64, width, generator=torch.Generator().manual_seed(7)).to(me.device, me.dtype)
    return _inference(me, model, (x,))


def sequence_mlp(me: Rank) -> Found:
    """Two gated layers of width 4096 whose 4096 rows are split: a gather of 16 MiB per process, matmuls, a
    reduce-scatter.
    """
    torch.manual_seed(me.rank)
    width, inner, rows = (4096, 14336, 4096) if me.on_gpu else (32, 64, 16)
    model = SequenceMlp(2, width, inner, me.world).to(me.device, me.dtype).eval()
    x = torch.randn(rows // me.world, width, generator=torch.Generator().manual_seed(7 + me.rank))
    return _inference(me, model, (x.to(me.device, me.dtype),), _WITH_FUSED)


def gpt_inference(me: Rank) -> Found:
    """Inference on one row of 128 tokens."""
    model, ids = gpt(me)
    return _inference(me, model.eval(), (ids,))


def latency(me: Rank) -> Found:
    """An addition and the sum over all processes, by size: torch's functions, its one-shot operator by hand,
    and programs of ours.
    """
    times: dict[str, dict[str, list[float]]] = {}
    failed: dict[str, str] = {}
    for nbytes in SIZES:
        x = torch.full((nbytes // me.dtype.itemsize,), float(me.rank), device=me.device, dtype=me.dtype)
        calls: dict[str, Callable[[], object]] = {"NCCL" if me.on_gpu else "gloo": partial(_by_torch, x)}
        if me.on_gpu:
            calls["one-shot by hand"] = _by_hand(x)
        with torch.no_grad():
            for side in ("torch.compile", "ours", "ours, lowered", "ours, lowered, graphs"):
                if side.startswith("ours, ") and not me.on_gpu:
                    continue
                torch._dynamo.reset()
                try:
                    run = torch.compile(_sum_of_more, fullgraph=True, dynamic=False, **SIDES[side])
                    for _ in range(3):
                        _require_close(run(x), _by_torch(x))
                    calls[side] = partial(run, x)
                except Exception as error:  # a side that fails must not end the run
                    failed[f"{side}, {nbytes}"] = told(error)
            times[str(nbytes)] = timed(me, calls)
    return {"failed": failed, "sizes": times}


def _sum_of_more(x: Tensor) -> Any:
    return _funcol.all_reduce(x + 1, "sum", dist.group.WORLD)


def _by_torch(x: Tensor) -> Tensor:
    y = x + 1
    dist.all_reduce(y)
    return y


def _by_hand(x: Tensor) -> Callable[[], Tensor]:
    from torch.distributed import _symmetric_memory as symm_mem

    buffer = symm_mem.empty(x.shape, dtype=x.dtype, device=x.device)
    group = dist.group.WORLD
    assert group is not None
    name = group.group_name
    symm_mem.rendezvous(buffer, name)
    sum_all: Any = torch.ops.symm_mem.one_shot_all_reduce.default

    def run() -> Tensor:
        torch.add(x, 1, out=buffer)
        total: Tensor = sum_all(buffer, "sum", name)
        return total

    return run


def endurance(me: Rank) -> Found:
    """10,000 calls of the lowered model: memory before and after."""
    torch.manual_seed(me.rank)
    model = ParallelMlp(2, 256, 1024, me.world).to(me.device, me.dtype).eval()
    x = torch.randn(16, 256, generator=torch.Generator().manual_seed(7)).to(me.device, me.dtype)
    side = "ours, lowered" if me.on_gpu else "ours"
    rows: list[tuple[int, int, int]] = []
    with torch.no_grad():
        run = torch.compile(model, fullgraph=True, **SIDES[side])
        for call in range(10_001):
            run(x)
            if call in (10, 1000, 10_000):
                me.wait()
                free = torch.cuda.mem_get_info()[0] if me.on_gpu else 0
                rows.append((call, torch.cuda.memory_allocated() if me.on_gpu else 0, free))
    return {"failed": {}, "rows": rows}


def death(me: Rank) -> Found:
    """Calls without end, until the driver kills one process.

    The file `running` marks their begin. The driver observes the behaviour of the other process.
    """
    torch.manual_seed(me.rank)
    model = ParallelMlp(2, 256, 1024, me.world).to(me.device, me.dtype).eval()
    x = torch.randn(16, 256).to(me.device, me.dtype)
    side = os.environ.get("BENCH_SIDES") or "ours"
    with torch.no_grad():
        run = torch.compile(model, fullgraph=True, **SIDES[side])
        for _ in range(5):
            run(x)
        me.wait()
        (me.folder / f"running{me.rank}").touch()
        while True:
            for _ in range(100):
                run(x)
            if me.on_gpu:
                torch.cuda.synchronize()


JOBS: Mapping[str, Callable[[Rank], Found]] = {
    "mlp": mlp,
    "sequence_mlp": sequence_mlp,
    "gpt_inference": gpt_inference,
    "gpt_training": gpt_training,
    "fsdp_training": fsdp_training,
    "latency": latency,
    "endurance": endurance,
    "death": death,
}


def main(job: str, rank: int, world: int, folder: Path) -> None:
    """Runs one job; rank 0 writes the results."""
    me = Rank(rank, world, folder)
    result = JOBS[job](me)
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(result), encoding="utf-8")
    me.wait()
    sys.stdout.flush()
    os._exit(0)  # objects that keep a group at Python's exit abort the process


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))

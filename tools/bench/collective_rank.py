"""One process of `bench_collectives`: a model or a measurement, by all sides, in lockstep with the other processes."""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from filelock import FileLock
from torch import Tensor, nn
from torch.distributed import _functional_collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from tests.common.parallel_models import ParallelGpt, ParallelMlp, SequenceMlp
from tools.bench.timing import alternate

__all__ = ["FUSED", "JOBS", "SIDES", "SIZES"]

# Any in this file: compiled callables, what torch leaves untyped
_funcol: Any = _functional_collectives
_ROUNDS, _CALLS = 9, 10
_STEPS = 20
_TOLERANCE = 3e-2
PATIENCE = int(os.environ.get("BENCH_PATIENCE", "300"))
"""Seconds after which a process that hears nothing from another one gives up."""
_LOWERED = "lower-collectives,plan-memory"
_OURS = {"backend": "wrapper_ir"}
_GRAPHS = "cuda-graphs{collectives=true}"


def _ours(**options: object) -> dict[str, Any]:
    return {**_OURS, "options": {"on_unsupported": "error", **options}}


SIDES: Mapping[str, Mapping[str, Any]] = {
    "torch.compile": {},
    "ours": _ours(),
    "ours, FX": _ours(emitter="fx"),
    "ours, lowered": _ours(passes=_LOWERED),
    "ours, graphs": _ours(passes=_GRAPHS, recordings=4),
    "ours, lowered, graphs": _ours(passes=f"lower-collectives,{_GRAPHS},plan-memory", recordings=4),
}
FUSED = "ours, fused products"
_WITH_FUSED: Mapping[str, Mapping[str, Any]] = {
    **SIDES,
    FUSED: _ours(passes="lower-collectives{fused-products=true},plan-memory"),
}
"""Also with products that are fused with collectives, where a job has any."""
SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 18, 1 << 20)
"""Bytes of the all-reduces whose latency is measured."""


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
        """All processes have finished what they queued."""
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
        """Bytes that torch's allocator holds for tensors of the device."""
        return torch.cuda.max_memory_allocated() if self.on_gpu else 0


Found = dict[str, Any]
Settings = Mapping[str, Any]
"""Keywords of `torch.compile`."""


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _compiled(
    me: Rank,
    model: Callable[..., Any],
    check: Callable[[Callable[..., Any]], None],
    sides: Mapping[str, Mapping[str, Any]],
) -> Found:
    """Each side, checked; `failed` has those that some process could not do, and why."""
    runs: dict[str, Callable[..., Any]] = {"eager": model}
    failed: dict[str, str] = {}
    wanted = os.environ.get("BENCH_SIDES", "").split(";")
    for side, settings in sides.items():
        if wanted != [""] and side not in wanted:
            continue
        torch._dynamo.reset()
        why = ""
        try:
            run = torch.compile(model, fullgraph=True, **settings)
            check(run)
        except Exception as error:  # a side that fails must not end the run
            why = _told(error)
        told: list[str | None] = [None] * me.world
        dist.all_gather_object(told, why, me.calm)
        if any(told):
            failed[side] = next(text for text in told if text)
        else:
            runs[side] = run
    return {"runs": runs, "failed": failed}


def _timed(me: Rank, calls: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    lock = FileLock(me.folder.parent / "lock")
    if me.rank == 0:
        lock.acquire()
    me.wait()
    times = alternate({side: partial(me.seconds, call) for side, call in calls.items()}, _ROUNDS)
    me.wait()
    if me.rank == 0:
        lock.release()
    return times


def _inference(
    me: Rank,
    model: nn.Module,
    args: tuple[Tensor, ...],
    sides: Mapping[str, Mapping[str, Any]] = SIDES,
) -> Found:
    """Times of a call by each side; every side's results are eager mode's."""
    with torch.no_grad():
        want = model(*args)

        def check(run: Callable[..., Any]) -> None:
            for _ in range(4):  # the first ones of a graph are not replays
                _require_close(run(*args), want)

        found = _compiled(me, model, check, sides)
        calls = {side: partial(run, *args) for side, run in found["runs"].items()}
        return {"failed": found["failed"], "times": _timed(me, calls)}


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
    """Two gated layers of a model of 4096 whose 4096 rows are split: a gather of 16 MiB a process, products, a reduce-scatter."""
    torch.manual_seed(me.rank)
    width, inner, rows = (4096, 14336, 4096) if me.on_gpu else (32, 64, 16)
    model = SequenceMlp(2, width, inner, me.world).to(me.device, me.dtype).eval()
    x = torch.randn(rows // me.world, width, generator=torch.Generator().manual_seed(7 + me.rank))
    return _inference(me, model, (x.to(me.device, me.dtype),), _WITH_FUSED)


def _gpt(me: Rank) -> tuple[ParallelGpt, Tensor]:
    """GPT-2 small on the GPU, a tiny one elsewhere."""
    torch.manual_seed(me.rank)
    large = {"blocks": 12, "width": 768, "heads": 12, "words": 50304, "tokens": 128}
    small = {"blocks": 2, "width": 32, "heads": 4, "words": 128, "tokens": 16}
    sizes = large if me.on_gpu else small
    model = ParallelGpt(**sizes, world=me.world).to(me.device, me.dtype)
    for name, p in model.named_parameters():
        if p.dim() == 1 or "words" in name or "places" in name:  # whole on every process
            dist.broadcast(p.data, 0)
    ids = torch.randint(0, sizes["words"], (1, sizes["tokens"]), generator=torch.Generator().manual_seed(7))
    return model, ids.to(me.device)


def gpt_inference(me: Rank) -> Found:
    """One row of 128 tokens."""
    model, ids = _gpt(me)
    return _inference(me, model.eval(), (ids,))


def _losses(me: Rank, model: nn.Module, run: Callable[..., Any], ids: Tensor, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    return [float(_step(run, optimizer, ids)) for _ in range(steps)]


def _step(run: Callable[..., Any], optimizer: torch.optim.Optimizer, ids: Tensor) -> Tensor:
    loss: Tensor = run(ids)
    loss.backward()  # type: ignore[no-untyped-call]  # torch's own
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


class _Loss(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        found = self.model(ids)
        logits = (found if isinstance(found, Tensor) else found[0]).float()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def gpt_training(me: Rank) -> Found:
    """GPT-2 small, split by tensors."""
    first, ids = _gpt(me)

    def make(settings: Settings | None) -> tuple[nn.Module, Callable[..., Any]]:
        model = _Loss(copy.deepcopy(first))
        return model, model if settings is None else torch.compile(model, fullgraph=True, **settings)

    return _training(me, make, ids, ("torch.compile", "ours", "ours, FX", "ours, lowered"))


def fsdp_training(me: Rank) -> Found:
    """GPT-2 small, whose weights are shared out (FSDP2) and whose blocks are compiled; each process has tokens of its own."""
    torch.manual_seed(0)
    large = {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50304, "n_positions": 128}
    small = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 128, "n_positions": 16}
    sizes = large if me.on_gpu else small
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(**sizes, **ends, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    first = GPT2LMHeadModel(config).to(me.device)
    ids = torch.randint(
        0, sizes["vocab_size"], (1, sizes["n_positions"]), generator=torch.Generator().manual_seed(me.rank)
    )
    mesh = init_device_mesh(me.device.type, (me.world,))

    def make(settings: Settings | None) -> tuple[nn.Module, Callable[..., Any]]:
        model = _Loss(copy.deepcopy(first))
        for block in model.get_submodule("model.transformer.h").children():
            if settings is not None:
                block.compile(**settings)
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model, model

    return _training(me, make, ids.to(me.device), ("torch.compile", "ours", "ours, FX"))


def _training(
    me: Rank,
    make: Callable[[Settings | None], tuple[nn.Module, Callable[..., Any]]],
    ids: Tensor,
    sides: Sequence[str],
) -> Found:
    """Steps of a model of each side, its curve of 20 losses, and the bytes that it held at most."""
    calls: dict[str, Callable[[], object]] = {}
    curves: dict[str, list[float]] = {}
    held: dict[str, int] = {}
    failed: dict[str, str] = {}
    for side in ("eager", *sides):
        torch._dynamo.reset()
        why = ""
        try:
            model, run = make(None if side == "eager" else SIDES[side])
            _step(run, torch.optim.SGD(model.parameters(), lr=0.0), ids)
            if me.on_gpu:
                torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated() if me.on_gpu else 0
            curves[side] = _losses(me, model, run, ids, _STEPS)
            held[side] = me.memory() - before
        except Exception as error:  # a side that fails must not end the run
            why = _told(error)
        told: list[str | None] = [None] * me.world
        dist.all_gather_object(told, why, me.calm)
        if any(told):
            failed[side] = next(text for text in told if text)
        else:
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
            calls[side] = partial(_step, run, optimizer, ids)
    return {"failed": failed, "times": _timed(me, calls), "curves": curves, "held": held}


def latency(me: Rank) -> Found:
    """An addition and the sum over all processes, by size: torch's functions, its one-shot operator by hand, and programs of ours."""
    found: dict[str, dict[str, list[float]]] = {}
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
                    failed[f"{side}, {nbytes}"] = _told(error)
            found[str(nbytes)] = _timed(me, calls)
    return {"failed": failed, "sizes": found}


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
        made: Tensor = sum_all(buffer, "sum", name)
        return made

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
        for done in range(10_001):
            run(x)
            if done in (10, 1000, 10_000):
                me.wait()
                free = torch.cuda.mem_get_info()[0] if me.on_gpu else 0
                rows.append((done, torch.cuda.memory_allocated() if me.on_gpu else 0, free))
    return {"failed": {}, "rows": rows}


def death(me: Rank) -> Found:
    """Calls without end, of which the driver kills one process; the file `running` says that they have begun. What the other
    one does then is the driver's to see."""
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
    """Runs one job; rank 0 writes what was found."""
    me = Rank(rank, world, folder)
    found = JOBS[job](me)
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")
    me.wait()
    sys.stdout.flush()
    os._exit(0)  # what holds a group at Python's own exit now and then aborts the process


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))

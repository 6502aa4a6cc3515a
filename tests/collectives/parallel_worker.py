"""One of several processes that run split models and compare programs; started by `test_parallel.py`.

Usage: `python tests/collectives/parallel_worker.py RANK FOLDER WORLD [CASE ...]`. Writes the outcome of each
case into a file of the folder, as `collective_worker.py` does.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from tests.collectives.cpp_libraries import CPP_CASES
from tests.collectives.disagreement_cases import planted_disagreements
from tests.collectives.fused_cases import fused_matmuls
from tests.collectives.lowered_cases import lowered_kernels
from tests.collectives.rank_cases import RANK_CASES
from tests.common.parallel_models import ParallelGpt
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime import agree
from wrapper_ir_torch import FINISHED, TorchGroupStore, finished_collective

# Any in this file: untyped parts of torch
PATIENCE = timedelta(seconds=240)
STEPS = 20
BACKENDS = ("inductor", "wrapper_ir")
GROUP = "0"
SIZES = {"blocks": 1, "width": 16, "heads": 4, "words": 32, "tokens": 8}


def finished_collectives(rank: int, world: int, folder: Path) -> None:
    """Each finished collective equals the operator followed by its wait, also in its arguments."""
    x = torch.arange(world * 4, dtype=torch.float32).reshape(world * 2, 2) + rank
    y = torch.arange(world * 2, dtype=torch.float32) * (rank + 1)
    splits = [2] * world
    calls: dict[str, tuple[Any, ...]] = {
        "all_reduce": (x, "sum", GROUP),
        "all_reduce_": (x, "max", GROUP),
        "all_reduce_coalesced": ([x, y], "sum", GROUP),
        "all_reduce_coalesced_": ([x, y], "min", GROUP),
        "broadcast": (x, world - 1, GROUP),
        "broadcast_": (x, 0, GROUP),
        "all_gather_into_tensor": (x, world, GROUP),
        "all_gather_into_tensor_coalesced": ([x, y], world, GROUP),
        "all_gather_into_tensor_out": (x, world, GROUP),
        "reduce_scatter_tensor": (x, "sum", world, GROUP),
        "reduce_scatter_tensor_coalesced": ([x, y], "sum", world, GROUP),
        "reduce_scatter_tensor_out": (x, "sum", world, GROUP),
        "all_to_all_single": (x, splits, splits, GROUP),
    }
    wait: Any = torch.ops._c10d_functional.wait_tensor
    assert {f"_c10d_functional::{name}" for name in calls} == FINISHED.keys()
    for name, args in calls.items():
        operator: Any = getattr(torch.ops._c10d_functional, name).default
        rows = {"all_gather_into_tensor_out": world * world * 2, "reduce_scatter_tensor_out": 2}.get(name)
        found = []
        for call in (operator, finished_collective(f"_c10d_functional::{name}")):
            given = copy.deepcopy(args)
            named = {} if rows is None else {"out": torch.empty(rows, 2)}
            made = call(*given, **named)
            made = wait(made) if isinstance(made, Tensor) else [*map(wait, made)]
            found.append((made, given[0]))
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


class _Loss(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        logits = self.model(ids)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def _curve(model: nn.Module, run: Callable[..., Any], ids: Tensor) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        loss = run(ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    return losses


def _require_equal(curves: Mapping[str, list[float]]) -> None:
    stock, ours = (curves[backend] for backend in BACKENDS)
    assert stock[-1] < stock[0]
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(stock), rtol=1e-4, atol=1e-4)


def _ids() -> Tensor:
    return torch.randint(0, SIZES["words"], (2, SIZES["tokens"]), generator=torch.Generator().manual_seed(7))


def tensor_parallel_gpt(rank: int, world: int, folder: Path) -> None:
    """20 steps through stock torch.compile and our backend have the same losses."""
    torch.manual_seed(rank)
    first = ParallelGpt(**SIZES, world=world)
    for p in first.parameters():
        if p.dim() == 1 or p is first.words.weight or p is first.places.weight:
            dist.broadcast(p.data, 0)
    curves = {}
    for backend in BACKENDS:
        torch._dynamo.reset()
        model = _Loss(copy.deepcopy(first))
        curves[backend] = _curve(model, torch.compile(model, backend=backend, fullgraph=True), _ids())
    _require_equal(curves)


def fully_sharded_gpt(rank: int, world: int, folder: Path) -> None:
    """Parameters are split over all processes, gathered before a block runs, and gradients scattered after
    it.
    """
    torch.manual_seed(0)
    first = ParallelGpt(**SIZES, world=1)
    curves = {}
    for backend in BACKENDS:
        torch._dynamo.reset()
        model = copy.deepcopy(first)
        for block in model.blocks:
            block.compile(backend=backend)
            fully_shard(block)
        fully_shard(model)
        whole = _Loss(model)
        curves[backend] = _curve(whole, whole, _ids() + 0 * rank)
    _require_equal(curves)


def disagreement(rank: int, world: int, folder: Path) -> None:
    """The last process differs in one line: every process reports it, through the group's own store."""
    usual = ("inputs: f32[8]", "plan: 4096 bytes", "tuning: 1", "program: 1")
    agree(TorchGroupStore(GROUP), GROUP, usual)
    for at, line in enumerate(usual):
        mine = (*usual[:at], f"{line}!", *usual[at + 1 :]) if rank == world - 1 else usual
        try:
            agree(TorchGroupStore(GROUP), GROUP, ("again", *mine))
        except ExecutionError as error:
            assert error.code == "WIR933"
            assert f"`{line}`" in str(error)
            assert f"`{line}!`" in str(error)
        else:
            raise AssertionError(f"{line} differed, and rank {rank} was not told")


CASES: Mapping[str, Callable[[int, int, Path], None]] = MappingProxyType(
    {
        f.__name__: f
        for f in (
            finished_collectives,
            fused_matmuls,
            lowered_kernels,
            disagreement,
            planted_disagreements,
            tensor_parallel_gpt,
            fully_sharded_gpt,
            *RANK_CASES,
            *CPP_CASES.values(),
        )
    }
)


def main(rank: int, folder: Path, world: int, only: list[str]) -> None:
    """Runs the cases of these names, or all."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world, timeout=PATIENCE
    )
    done: dict[str, Any] = {}
    for name in only or CASES:
        failure = ""
        try:
            CASES[name](rank, world, folder)
        except Exception:
            failure = traceback.format_exc()
        done[name] = {"failure": failure}
        (folder / f"rank{rank}.json").write_text(json.dumps(done), encoding="utf-8")
        if failure:
            sys.exit(1)  # no shutdown: the other processes may be waiting for something else
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # gloo's teardown occasionally aborts the process


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])

"""One of two processes with a GPU each, for matmuls fused with collectives by torch's own operators; started
by `test_fused_matmuls_gpu.py`.

Usage: `python tests/collectives/fused_worker.py RANK FOLDER`. Writes the failures of each case into a file of
the folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from tests.collectives.fused_cases import require_equal
from tests.collectives.steps import join_over_gpus, run_steps
from tests.common.parallel_models import SequenceMlp

WORLD = 2
FUSED = ("symm_mem::fused_all_gather_matmul", "symm_mem::fused_matmul_reduce_scatter")
PASSES = "lower-collectives{fused-matmuls=true,fused-matmuls-minimum-bytes=0},plan-memory"


def engines(rank: int) -> None:
    """Runs a layer as text through every engine; afterwards no multicast object can be created."""
    require_equal(rank, WORLD, torch.device("cuda", rank))
    memory: Any = torch._C._distributed_c10d._SymmetricMemory
    assert not memory.has_multicast_support(torch._C._autograd.DeviceType.CUDA, rank)


def compiled(rank: int, emitter: str) -> None:
    """A sequence-parallel MLP in bfloat16 equals eager mode, call after call, and runs fused operators only."""
    torch.manual_seed(rank)
    model = SequenceMlp(2, 256, 512, WORLD).to("cuda", torch.bfloat16).eval()
    run = torch.compile(
        model,
        backend="wrapper_ir",
        fullgraph=True,
        options={"passes": PASSES, "emitter": emitter, "on_unsupported": "error"},
    )
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(64, 256, device="cuda", dtype=torch.bfloat16)
            torch.testing.assert_close(run(x), model(x), rtol=2e-2, atol=2e-2)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            run(x)
    counts = {event.key: event.count for event in seen.key_averages()}
    assert [counts.get(name) for name in FUSED] == [2, 2], counts
    assert not any(name.startswith("_c10d_functional::") for name in counts), counts


CASES: Mapping[str, Callable[[int], None]] = MappingProxyType(
    {
        "engines": engines,
        "compiled, Python": partial(compiled, emitter="python"),
        "compiled, FX": partial(compiled, emitter="fx"),
        "compiled, C++": partial(compiled, emitter="cpp"),
    }
)


def main(rank: int, folder: Path) -> None:
    """All cases."""
    join_over_gpus(rank, WORLD, folder)
    run_steps(rank, folder, {name: partial(case, rank) for name, case in CASES.items()})
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))

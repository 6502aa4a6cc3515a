"""One of two processes with a GPU each, whose collectives use memory registered with NCCL; started by
`test_registered_gpu.py`.

Usage: `python tests/collectives/registered_worker.py RANK FOLDER`. Writes the failures of each way to run the
program, counts, and microseconds per call, into a file of the folder.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ["NCCL_NVLS_ENABLE"] = "0"  # no multicast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import fx_converter
import inductor_frontend  # noqa: F401 - registers the backend
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from tests.collectives.collective_cases import funcol
from tests.collectives.steps import join_over_gpus, run_steps
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_torch import REGISTERED_MEMORY

WORLD = 2
STEPS = (
    *("interpreter", "Python", "Python, planned", "FX, direct", "FX, hop", "FX, read again"),
    *("many calls", "compiled", "times", "counts", "released", "ended"),
)
CALLS = 10_000
PROGRAM = """wir 0.5
target cuda:RANK arch "sm_90"

extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor" tags(collective)

func @main(%x: f32[SIZE] @cuda:RANK) {
  %a = alloc f32[SIZE] @cuda:RANK
  copy %a, %x
  %h = collective _c10d_functional::all_reduce_(%a, "sum", "0") group("0") : f32[SIZE] @cuda:RANK
  %s = wait %h : f32[SIZE] @cuda:RANK
  %g = collective _c10d_functional::all_gather_into_tensor(%s, 2, "0") group("0") : f32[TWICE] @cuda:RANK
  %t = wait %g : f32[TWICE] @cuda:RANK
  %y = alloc f32[TWICE] @cuda:RANK
  copy %y, %t
  return %y
}
"""


def artifact(rank: int, size: int, passes: str) -> Artifact:
    text = PROGRAM.replace("RANK", str(rank)).replace("SIZE", str(size)).replace("TWICE", str(2 * size))
    return bare_artifact(run_pipeline(wrapper_ir.parse_program(text), passes))


def ways(rank: int, folder: Path) -> dict[str, Callable[..., Any]]:
    """All that run the program; Any: its results."""
    one = artifact(rank, 1 << 20, "derive-frees,register-buffers")
    planned = artifact(rank, 1 << 20, "derive-frees,register-buffers,plan-memory")
    path = folder / f"{rank}.wir"
    fx_converter.save(fx_converter.convert(one, FxOptions(kernel_calls="direct")), path)
    return {
        "interpreter": Interpreter(one, py_wrapper.TORCH_MACHINE),
        "Python": py_wrapper.compile(one),
        "Python, planned": py_wrapper.compile(planned),
        "FX, direct": fx_converter.convert(one, FxOptions(kernel_calls="direct")),
        "FX, hop": fx_converter.convert(planned, FxOptions(kernel_calls="hop")),
        "FX, read again": fx_converter.load(path, FxOptions(kernel_calls="direct")),
    }


def check(way: Callable[..., Any], rank: int) -> None:
    for turn in range(3):
        parts = [torch.arange(float(1 << 20), device="cuda") * (other + turn + 1) for other in range(WORLD)]
        (got,) = way(parts[rank])
        torch.testing.assert_close(got, (parts[0] + parts[1]).repeat(2))


def many_calls(rank: int) -> None:
    """Nothing is registered again, and no memory is added."""
    device = torch.device("cuda", rank)
    run = py_wrapper.compile(artifact(rank, 1 << 20, "derive-frees,register-buffers"))
    x = torch.ones(1 << 20, device="cuda")
    run(x)
    before = REGISTERED_MEMORY.counts("0", device), torch.cuda.memory_reserved()
    for _ in range(CALLS):
        (got,) = run(x)
    torch.cuda.synchronize()
    assert (REGISTERED_MEMORY.counts("0", device), torch.cuda.memory_reserved()) == before
    assert bool((got == WORLD).all())


def compiled(rank: int) -> None:
    """A tensor-parallel model, and a sum and a gather whose results stay inside; both against eager."""
    torch.manual_seed(0)
    mesh = init_device_mesh("cuda", (WORLD,))
    whole = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
    model = parallelize_module(whole, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})

    def gathered(x: Tensor) -> Tensor:
        total = funcol.all_reduce(x + 1, "sum", dist.group.WORLD)
        rows: Tensor = funcol.all_gather_tensor(total * 2, 0, dist.group.WORLD)
        return rows.relu() - 1

    x = torch.randn(64, 256, device="cuda")
    options: dict[str, Any] = {"passes": "register-buffers,plan-memory"}
    for function in (model, gathered):
        fast: Any = torch.compile(function, backend="wrapper_ir", options=options, fullgraph=True)
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(fast(x), function(x))


def timed(rank: int) -> dict[str, float]:
    """Microseconds a call of the same program, with and without registration, alternating."""
    found: dict[str, float] = {}
    for size in (1 << 18, 1 << 22, 1 << 26):
        x = torch.ones(size, device="cuda")
        runs = {
            name: py_wrapper.compile(artifact(rank, size, passes))
            for name, passes in (("plain", "derive-frees"), ("registered", "derive-frees,register-buffers"))
        }
        for turn in range(6):
            for name, run in runs.items():
                dist.barrier()
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(20):
                    run(x)
                torch.cuda.synchronize()
                key = f"{name}, {size * 4} bytes"
                taken = (time.perf_counter() - start) / 20 * 1e6
                found[key] = min(taken, found.get(key, taken)) if turn else float("inf")
    return found


def ended(rank: int) -> None:
    """With the group, its registrations and memory end.

    Deregistration happens while both processes have the group: NCCL's own deregistration needs the other one,
    which may have ended.
    """
    device = torch.device("cuda", rank)
    assert REGISTERED_MEMORY.counts("0", device).segments > 0
    torch.cuda.synchronize()
    REGISTERED_MEMORY.release("0")
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    gc.collect()
    assert REGISTERED_MEMORY.counts("0", device).tensors == 0


def main(rank: int, folder: Path) -> None:
    """All steps."""
    join_over_gpus(rank, WORLD, folder)
    device = torch.device("cuda", rank)
    steps: dict[str, Callable[[], Any]] = {
        name: partial(check, way, rank) for name, way in ways(rank, folder).items()
    }
    steps |= {
        "many calls": partial(many_calls, rank),
        "compiled": partial(compiled, rank),
        "times": partial(timed, rank),
        "counts": lambda: [str(REGISTERED_MEMORY.counts("0", device))],
        "released": partial(released, device),
        "ended": partial(ended, rank),
    }
    assert (*steps,) == STEPS
    run_steps(rank, folder, steps)
    os._exit(0)


def released(device: torch.device) -> None:
    """Memory of a living group can be released; a program that is called again registers new memory."""
    REGISTERED_MEMORY.release("0")
    assert REGISTERED_MEMORY.counts("0", device).segments == 0
    check(
        py_wrapper.compile(artifact(device.index or 0, 1 << 20, "derive-frees,register-buffers")),
        device.index or 0,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))

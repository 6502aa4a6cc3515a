"""One of two processes with a GPU each, whose C++ libraries have memory of their group; started by
`test_group_memory_cpp_gpu.py`.

Usage: `python tests/collectives/group_memory_cpp_worker.py RANK FOLDER`. Writes the failures of each case,
and microseconds per call, into a file of the folder.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ["NCCL_NVLS_ENABLE"] = "0"  # no multicast

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

import cpp_wrapper
import inductor_frontend  # noqa: F401 - registers the backend
import py_wrapper
import wrapper_ir
from cpp_wrapper import CppOptions
from tests.collectives import fused_cases, lowered_cases, registered_worker, symmetric_worker
from tests.collectives.cpp_libraries import library
from tests.collectives.rank_cases import refused
from tests.collectives.steps import join_over_gpus, run_steps
from tests.common.parallel_models import ParallelMlp
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_torch import REGISTERED_MEMORY, SYMMETRIC_MEMORY

# Any in this file: programs of any signature
WORLD = 2
CALLS = 10_000
GRAPHED = """wir 0.5
target cuda:RANK arch "sm_90"

extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)

func @main(%x: f32[64, 64] @cuda:RANK, %w: f32[64, 64] @cuda:RANK) {
  %a = alloc f32[64, 64] @cuda:RANK
  call aten::mm.out(%x, %w, out=%a)
  %b = alloc f32[64, 64] @cuda:RANK
  call aten::mm.out(%a, %w, out=%b)
  %c = alloc f32[64, 64] @cuda:RANK
  call aten::mm.out(%b, %w, out=%c)
  %h = collective _c10d_functional::all_reduce_(%c, "sum", "0") group("0") : f32[64, 64] @cuda:RANK
  %s = wait %h : f32[64, 64] @cuda:RANK
  %d = alloc f32[64, 64] @cuda:RANK
  call aten::mm.out(%s, %w, out=%d)
  %e = alloc f32[64, 64] @cuda:RANK
  call aten::mm.out(%d, %w, out=%e)
  return %e
}
"""


def _summed(rank: int) -> Artifact:
    return bare_artifact(wrapper_ir.parse_program(symmetric_worker.PROGRAM.replace("RANK", str(rank))))


def _own_folder(rank: int, folder: Path) -> Path:
    made = folder / f"libraries{rank}"
    made.mkdir(exist_ok=True)
    return made


def symmetric(rank: int, folder: Path) -> None:
    """One library, for the first device, which each process loads for its own device."""
    path = folder / "summed.so"
    if rank == 0:
        cpp_wrapper.build(_summed(0), path, CppOptions(opt_level=0))
    dist.barrier()
    run = cpp_wrapper.load(path, rank)
    symmetric_worker.equal_sums(run, rank)
    SYMMETRIC_MEMORY.release("0")
    symmetric_worker.equal_sums(run, rank)


def kernels(rank: int, folder: Path) -> None:
    """All-reduces in one step and in two, and reduce-scatters equal the library's collectives, and emitted
    Python.
    """
    make = library(_own_folder(rank, folder))
    x, w = torch.randn(16, 4, device="cuda"), torch.randn(4, 4, device="cuda")
    for options in lowered_cases.OPTIONS:
        usual, other = lowered_cases.lowered_pair(lowered_cases.program(WORLD), options, f"cuda:{rank}")
        run, want = make(other), py_wrapper.compile(usual)(x, w)
        for _ in range(3):
            torch.testing.assert_close(tuple(run(x, w)), tuple(want))
        torch.testing.assert_close(tuple(run(x, w)), tuple(py_wrapper.compile(other)(x, w)))


def registered(rank: int, folder: Path) -> None:
    """In place and into memory of the program's, planned too; released, and registered again."""
    make = library(_own_folder(rank, folder))
    for passes in ("derive-frees,register-buffers", "derive-frees,register-buffers,plan-memory"):
        run = make(registered_worker.artifact(rank, 1 << 20, passes))
        registered_worker.check(run, rank)
    assert REGISTERED_MEMORY.counts("0", torch.device("cuda", rank)).tensors > 0
    dist.barrier()
    torch.cuda.synchronize()
    REGISTERED_MEMORY.release("0")
    registered_worker.check(run, rank)


def fused(rank: int, folder: Path) -> None:
    """Torch's fused operators: sums and means."""
    make = library(_own_folder(rank, folder))
    args = [torch.randn(*sizes, device="cuda") for sizes in ((4, 2, 8), (16, 8), (8, 16), (16, 8))]
    for operation in ("sum", "avg"):
        usual, other = fused_cases.fused(fused_cases.program(WORLD, operation), f"cuda:{rank}")
        run, want = make(other), py_wrapper.compile(usual)(*args)
        for _ in range(3):
            torch.testing.assert_close(tuple(run(*args)), tuple(want))


def graphed(rank: int, folder: Path) -> None:
    """Ops between kernels over symmetric memory are captured; the memory itself stays out."""
    program = wrapper_ir.parse_program(GRAPHED.replace("RANK", str(rank)))
    passes = "derive-frees,lower-collectives,cuda-graphs{own_memory=true},plan-memory"
    lowered = bare_artifact(run_pipeline(program, passes))
    assert any(f.replayable for f in lowered.program.functions)
    run = library(_own_folder(rank, folder))(lowered)
    usual = py_wrapper.compile(bare_artifact(run_pipeline(program, "derive-frees")))
    for _ in range(6):
        x, w = (torch.randn(64, 64, device="cuda") / 8 for _ in range(2))
        torch.testing.assert_close(tuple(run(x, w)), tuple(usual(x, w)), rtol=1e-3, atol=1e-3)
    assert run.metadata["replayed"], run.metadata["not_replayed"]


def compiled(rank: int, folder: Path) -> None:
    """A tensor-parallel MLP through `torch.compile` equals eager mode.

    Its sums are kernels over symmetric memory, or have registered memory.
    """
    model = ParallelMlp(2, 256, 512, WORLD).to("cuda", torch.bfloat16).eval()
    for passes, name in (
        ("lower-collectives,plan-memory", "symm_mem::one_shot_all_reduce_out"),
        ("register-buffers,plan-memory", "wrapper_ir::empty_registered"),
    ):
        torch._dynamo.reset()
        options: dict[str, Any] = {"emitter": "cpp", "on_unsupported": "error", "passes": passes}
        run: Any = torch.compile(model, backend="wrapper_ir", fullgraph=True, options=options)
        with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as seen:
            for _ in range(3):
                x = torch.randn(32, 256, device="cuda", dtype=torch.bfloat16)
                torch.testing.assert_close(run(x), model(x), rtol=2e-2, atol=2e-2)
        assert name in {event.key for event in seen.key_averages()}, name


def many_calls(rank: int, folder: Path) -> dict[str, float]:
    """No memory is added; microseconds a call from C++ and Python, alternating."""
    artifact = _summed(rank)
    runs: dict[str, Callable[..., Any]] = {
        "C++": library(_own_folder(rank, folder))(artifact),
        "Python": py_wrapper.compile(artifact),
    }
    x = torch.ones(1024, device="cuda")
    for run in runs.values():
        run(x)
    before = torch.cuda.memory_reserved()
    found: dict[str, float] = {}
    for _ in range(5):
        for name, run in runs.items():
            dist.barrier()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(CALLS // 5):
                (got,) = run(x)
            torch.cuda.synchronize()
            taken = (time.perf_counter() - begin) / (CALLS // 5) * 1e6
            found[name] = min(taken, found.get(name, taken))
    assert torch.cuda.memory_reserved() == before
    assert bool((got == WORLD).all())
    return found


def disagreement(rank: int, folder: Path) -> None:
    """One process has another id: both raise before a kernel waits forever."""
    text = symmetric_worker.PROGRAM.replace("RANK", str(rank))
    planted = bare_artifact(wrapper_ir.parse_program(text.replace('"0", 5', f'"0", {50 + rank}')))
    run = library(_own_folder(rank, folder))(planted)
    with refused("WIR933", "rank 0 has `plan @main: ", "rank 1 has `plan @main: "):
        run(torch.ones(1024, device="cuda"))


def ended(rank: int, folder: Path) -> None:
    """Libraries keep no memory of the group."""
    device = torch.device("cuda", rank)
    torch.cuda.synchronize()
    REGISTERED_MEMORY.release("0")
    SYMMETRIC_MEMORY.release("0")
    assert REGISTERED_MEMORY.counts("0", device).segments == 0
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    gc.collect()
    assert REGISTERED_MEMORY.counts("0", device).tensors == 0


CASES: Mapping[str, Callable[[int, Path], Any]] = MappingProxyType(
    {
        f.__name__: f
        for f in (symmetric, kernels, registered, fused, graphed, compiled, many_calls, disagreement, ended)
    }
)


def main(rank: int, folder: Path) -> None:
    """All cases."""
    join_over_gpus(rank, WORLD, folder)

    def step(case: Callable[[int, Path], Any]) -> Callable[[], Any]:
        return lambda: case(rank, folder)

    run_steps(rank, folder, {name: step(case) for name, case in CASES.items()})
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))

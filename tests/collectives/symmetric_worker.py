"""One of two processes with a GPU each, which sum their symmetric memory; started by `test_symmetric_gpu.py`.

Usage: `python tests/collectives/symmetric_worker.py RANK FOLDER`. Writes the failures of each emitter, and
microseconds of reduce-scatters, into a file of the folder.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch.distributed as dist

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from tests.collectives.lowered_cases import require_equal
from tests.collectives.steps import join_over_gpus, run_steps
from wrapper_ir import ir
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_runtime.interp import Interpreter

WORLD = 2
STEPS = (
    *("interpreter", "emitted Python"),
    *("FX graph, direct", "FX graph, direct, read again", "FX graph, hop", "FX graph, hop, read again"),
    *("kernels", "scattered"),
)
PROGRAM = """wir 0.5
target cuda:RANK arch "sm_90"

extern "symm_mem::one_shot_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective) symmetric(input)

func @main(%x: f32[1024] @cuda:RANK) {
  %s = alloc_storage 4096 @cuda:RANK symmetric("0", 5)
  %b = view %s : f32[1024] @cuda:RANK
  copy %b, %x
  %y = call symm_mem::one_shot_all_reduce(%b, "sum", "0") : f32[1024] @cuda:RANK
  free %s
  return %y
}
"""


SCATTER = """wir 0.5
target cuda:RANK arch "sm_90"

extern "_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor" tags(collective)

func @main(%x: bf16[SIZE] @cuda:RANK) {
  %a = alloc bf16[SIZE] @cuda:RANK
  copy %a, %x
  %h = collective _c10d_functional::reduce_scatter_tensor(%a, "sum", 2, "0") group("0") : bf16[HALF] @cuda:RANK
  %y = wait %h : bf16[HALF] @cuda:RANK
  return %y
}
"""


def ways(rank: int, folder: Path) -> dict[str, Callable[..., Any]]:
    """All that run the program; Any: its results."""
    artifact = bare_artifact(wrapper_ir.parse_program(PROGRAM.replace("RANK", str(rank))))
    found: dict[str, Callable[..., Any]] = {
        "interpreter": Interpreter(artifact, py_wrapper.TORCH_MACHINE),
        "emitted Python": py_wrapper.compile(artifact),
    }
    for options in (FxOptions(kernel_calls="direct"), FxOptions(kernel_calls="hop")):
        module = fx_converter.convert(artifact, options)
        path = folder / f"{rank}.{options.kernel_calls}.wir"
        fx_converter.save(module, path)
        found[f"FX graph, {options.kernel_calls}"] = module
        found[f"FX graph, {options.kernel_calls}, read again"] = fx_converter.load(path, options)
    return found


def equal_sums(way: Callable[..., Any], rank: int) -> None:
    """Three times: an allocation has the memory of the one before."""
    for turn in range(3):
        parts = [torch.arange(1024.0, device="cuda") * (other + turn + 1) for other in range(WORLD)]
        (got,) = way(parts[rank])
        torch.testing.assert_close(got, sum(parts))


def scattered(rank: int) -> dict[str, float]:
    """Shares of sums in bfloat16 equal the library's, of sizes that fill no block of the kernel among them;
    microseconds a call of the program with the library's operator and with the kernel, alternating.
    """
    found: dict[str, float] = {}
    for size in (1 << 4, 48, 1 << 9, 1 << 15, 1 << 17, 1 << 19, 1 << 21):
        text = SCATTER.replace("RANK", str(rank)).replace("HALF", str(size // 2)).replace("SIZE", str(size))
        passes = "derive-frees,lower-collectives{one-shot-reduce-scatter-threshold-bytes=8388608}"
        programs = [run_pipeline(wrapper_ir.parse_program(text), p) for p in ("derive-frees", passes)]
        assert any(
            op.target == "symm_mem::reduce_scatter_out"
            for op in programs[1].ops
            if isinstance(op, ir.CallExtern)
        )
        runs = [py_wrapper.compile(bare_artifact(program)) for program in programs]
        x = torch.randint(0, 64, (size,), device="cuda").to(torch.bfloat16)
        torch.testing.assert_close(*(run(x)[0] for run in runs), rtol=0, atol=0)
        for turn in range(5):
            for name, run in zip(("library", "kernel"), runs, strict=True):
                dist.barrier()
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(50):
                    run(x)
                torch.cuda.synchronize()
                taken = (time.perf_counter() - begin) / 50 * 1e6
                key = f"{name}, {size * 2} bytes"
                found[key] = min(taken, found.get(key, taken)) if turn else float("inf")
    return found


def main(rank: int, folder: Path) -> None:
    """Each way to run the program, programs with every kernel, and shares of sums; until one fails."""
    join_over_gpus(rank, WORLD, folder)
    steps: dict[str, Callable[[], Any]] = {
        name: partial(equal_sums, way, rank) for name, way in ways(rank, folder).items()
    }
    steps["kernels"] = partial(require_equal, rank, WORLD, torch.device("cuda", rank))
    steps["scattered"] = partial(scattered, rank)
    assert (*steps,) == STEPS
    run_steps(rank, folder, steps)
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))

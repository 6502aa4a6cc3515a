"""One of two processes with a GPU each, which sum what they hold in symmetric memory; started by `test_symmetric_gpu.py`.

Usage: `python tests/collectives/symmetric_worker.py RANK FOLDER`. Writes what went wrong for each emitter into a file of the folder.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch.distributed as dist

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.interp import Interpreter

WORLD = 2
PATIENCE = timedelta(seconds=60)
PROGRAM = """wir 0.3
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


def main(rank: int, folder: Path) -> None:
    """Each way three times: an allocation has the memory of the one before."""
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=WORLD,
        timeout=PATIENCE,
        device_id=torch.device("cuda", rank),
    )
    done: dict[str, str] = {}
    for name, way in ways(rank, folder).items():
        failure = ""
        try:
            for turn in range(3):
                parts = [torch.arange(1024.0, device="cuda") * (other + turn + 1) for other in range(WORLD)]
                (got,) = way(parts[rank])
                torch.testing.assert_close(got, sum(parts))
        except Exception:
            failure = traceback.format_exc()
        done[name] = failure
        (folder / f"rank{rank}.json").write_text(json.dumps(done), encoding="utf-8")
        if failure:
            os._exit(1)  # no farewell: the other process may be waiting for something else
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))

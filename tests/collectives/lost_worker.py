"""One of two processes, of which one hangs and is then killed while the other waits for it; started by
`test_lost_process.py`.

Usage: `python tests/collectives/lost_worker.py RANK FOLDER`. The process of rank 0 writes the outcome of each
engine, and its duration, into a file of the folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch.distributed as dist

import cpp_wrapper
import fx_converter
import py_wrapper
from cpp_wrapper import CppOptions
from tests.cpp.collective_programs import HEAD
from wrapper_ir import parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import code_of
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_torch import compare_ranks

# Any in this file: programs of any signature
PATIENCE = 3
"""Seconds that a group's processes wait for each other."""
ENGINES = ("interpreter", "Python", "FX", "C++")
LOST = ("hangs", "is killed")
_PROGRAM = """wir 0.5
target cpu
{head}
func @main(%x: f32[4], %y: f32[4]) {{
  %a = collective _c10d_functional::all_reduce_(%x, "sum", "{group}") group("{group}") : f32[4]
  %b = collective _c10d_functional::all_reduce_(%y, "sum", "{group}") group("{group}") : f32[4]
  %c = wait %b : f32[4]
  %d = wait %a : f32[4]
  return %d
}}
"""


def artifact_in(group: str) -> Artifact:
    """Two sums in flight at once."""
    return bare_artifact(parse_program(_PROGRAM.format(head=HEAD, group=group)))


def _calls(names: dict[str, str], folder: Path) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Returns the program by engine, each in a separate group: a group whose wait has failed is unusable."""
    made = {engine: artifact_in(group) for engine, group in names.items()}
    yield "interpreter", Interpreter(made["interpreter"], py_wrapper.TORCH_MACHINE)
    yield "Python", py_wrapper.compile(made["Python"])
    yield "FX", fx_converter.convert(made["FX"])
    library = folder / f"{names['C++']}.so"
    yield "C++", cpp_wrapper.load(cpp_wrapper.build(made["C++"], library, CppOptions(opt_level=0)))


def _waited(call: Callable[..., Any]) -> dict[str, Any]:
    begin, error = time.monotonic(), ""
    try:
        call()
    except Exception as caught:
        error = f"{code_of(caught)} {type(caught).__name__}: {caught}"
    return {"error": error, "seconds": time.monotonic() - begin}


def main(rank: int, folder: Path) -> None:
    """Rank 1 joins all groups and does nothing until it is to be killed."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    groups = {
        how: {engine: dist.new_group([0, 1], timeout=timedelta(seconds=PATIENCE)) for engine in ENGINES}
        for how in LOST
    }
    dist.barrier()
    mark = folder / "kill"
    if rank == 1:
        while not mark.exists():
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)
    x, y = torch.ones(4), torch.ones(4)
    calls = {
        how: dict(_calls({engine: group.group_name for engine, group in found.items()}, folder))
        for how, found in groups.items()
    }
    done: dict[str, dict[str, Any]] = {how: {} for how in LOST}
    for how in LOST:
        for engine, call in calls[how].items():
            done[how][engine] = _waited(lambda call=call: call(x.clone(), y.clone()))
        mark.touch()
        time.sleep(1)
    done["compares"] = {
        "artifact": _waited(lambda: compare_ranks(artifact_in(groups["hangs"]["FX"].group_name)))
    }
    (folder / "rank0.json").write_text(json.dumps(done), encoding="utf-8")
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))

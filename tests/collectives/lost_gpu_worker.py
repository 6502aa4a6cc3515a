"""One of two processes with a GPU each, which call a program with collectives until the other one is killed;
started by `test_lost_process_gpu.py`.

Usage: `python tests/collectives/lost_gpu_worker.py RANK FOLDER CASE`. The file `running` with the rank marks
the begin of the calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

import cpp_wrapper
import fx_converter
import py_wrapper
from cpp_wrapper import CppOptions
from py_wrapper import PyOptions
from tests.collectives.steps import join_over_gpus
from wrapper_ir import parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_runtime import GraphedFunction

# Any in this file: programs of any results
WORLD = 2
PATIENCE = 12
"""Seconds that a group's processes wait for each other."""
_CALLS = 100
_GRAPHS = "cuda-graphs{collectives=true}"
_PROGRAM = """wir 0.5
target cuda:RANK arch "sm_90"

extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[128, 128], %w: f32[128, 128]) {
  %a = alloc f32[128, 128]
  call aten::mm.out(%x, %w, out=%a)
  %h = collective _c10d_functional::all_reduce_(%a, "sum", "0") group("0") : f32[128, 128]
  %b = alloc f32[128, 128]
  call aten::mm.out(%w, %x, out=%b)
  %k = collective _c10d_functional::all_reduce_(%b, "sum", "0") group("0") : f32[128, 128]
  %s = wait %k : f32[128, 128]
  %t = wait %h : f32[128, 128]
  return %s, %t
}
"""


def _artifact(rank: int, passes: str = "") -> Artifact:
    """Two sums in flight at once."""
    program = parse_program(_PROGRAM.replace("RANK", str(rank)))
    return bare_artifact(run_pipeline(program, ",".join(filter(None, ("derive-frees", passes)))))


def _library(rank: int, folder: Path, passes: str = "") -> Callable[..., Any]:
    built = cpp_wrapper.build(_artifact(rank, passes), folder / f"{rank}.so", CppOptions(opt_level=0))
    return cpp_wrapper.load(built)


def _graphed(rank: int, passes: str) -> Callable[..., Any]:
    return py_wrapper.compile(_artifact(rank, passes), PyOptions(cuda_graphs=4))


CASES: Mapping[str, Callable[[int, Path], Callable[..., Any]]] = MappingProxyType(
    {
        "Python": lambda rank, folder: py_wrapper.compile(_artifact(rank)),
        "FX": lambda rank, folder: fx_converter.convert(_artifact(rank)),
        "C++": _library,
        "C++, lowered": lambda rank, folder: _library(rank, folder, "lower-collectives"),
        "graphs": lambda rank, folder: _graphed(rank, _GRAPHS),
        "graphs, lowered": lambda rank, folder: _graphed(rank, f"lower-collectives,{_GRAPHS},plan-memory"),
    }
)
"""Builders of the callable, by name."""


def _require_replays(call: Any) -> None:
    found = [x for x in call.boxed.__globals__.values() if isinstance(x, GraphedFunction)]
    assert found
    assert all(f._replay is not None and not f.refusal for f in found), [f.refusal for f in found]


def main(rank: int, folder: Path, case: str) -> None:
    """Calls without end."""
    join_over_gpus(rank, WORLD, folder, PATIENCE)
    run = CASES[case](rank, folder)
    x, w = (torch.full((128, 128), 1.0 + rank, device="cuda") for _ in range(2))
    for _ in range(5):
        made = run(x, w)
    torch.testing.assert_close(made[0], torch.full_like(x, 128.0 * 5))
    if case.startswith("graphs"):
        _require_replays(run)
    torch.cuda.synchronize()
    (folder / f"running{rank}").touch()
    while True:
        for _ in range(_CALLS):
            run(x, w)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])

"""Libraries with memory of a process group: beside captured graphs, on fakes, and in a process without
Python.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

import cpp_wrapper
from tests.collectives.collective_cases import lonely_group
from tests.collectives.cpp_libraries import memory_of_host
from tests.collectives.group_memory_cpp_worker import GRAPHED
from tests.collectives.lowered_cases import on_host
from tests.cpp.cpp_case import FAST, artifact_of_text
from tests.cpp.cpp_gpu import FakeGpu
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes import run_pipeline

MARKED = """wir 0.5
target cuda:0 arch "sm_90"

func @main(%x: f32[16]) {
  %y = call_subgraph @part(%x) : f32[16]
  return %y
}

func @part(%x: f32[16]) replayable {
  %s = alloc_storage 64 symmetric("0", 5)
  %b = view %s : f32[16]
  copy %b, %x
  %y = alloc f32[16]
  copy %y, %b
  free %s
  return %y
}
"""
ALLOCATES = """
func @main(%x: i64[4]) {
  %s = alloc_storage 16 @cuda:0 symmetric("0", 5)
  %b = view %s : f32[4] @cuda:0
  copy %b, %x
  %y = alloc f32[4]
  copy %y, %b
  free %s
  return %y
}
"""


@pytest.mark.slow
@pytest.mark.skipif(torch.version.cuda is not None, reason="torch has a cuBLAS of its own in the process")
def test_what_stands_around_it_is_captured(gpu: FakeGpu, tmp_path: Path) -> None:
    """The sum in the middle is not captured, and the library gets its memory from Python in each call."""
    program = parse_program(GRAPHED.replace("RANK", "0"))
    passes = "derive-frees,lower-collectives,cuda-graphs{own_memory=true},plan-memory"
    run = gpu.load(bare_artifact(run_pipeline(program, passes)), tmp_path / "m.so")
    assert run.metadata["replayed"] == ["graph_0", "graph_1"]
    with lonely_group(tmp_path), on_host(lambda tensor, _: 2 * tensor, 0, 2):
        for _ in range(4):
            x, w = torch.randn(64, 64) / 8, torch.randn(64, 64) / 8
            torch.testing.assert_close(run(x, w)[0], 2 * (x @ w @ w @ w) @ w @ w, rtol=1e-3, atol=1e-3)
    assert [line.partition(" ")[0] for line in gpu.log()].count("replay") > 2


def test_a_function_that_allocates_it_runs_as_it_is() -> None:
    text = str(cpp_wrapper.emit(bare_artifact(parse_program(MARKED))))
    why = "%s is memory of a process group, which may release it"
    assert f"// not captured as a CUDA graph: {why}" in text


@pytest.mark.slow
def test_a_process_without_python_is_refused(cpp_runner: Path, tmp_path: Path) -> None:
    with memory_of_host():
        package = cpp_wrapper.build(artifact_of_text(ALLOCATES), tmp_path / "m.pt2", FAST)
    (tmp_path / "x").write_bytes(bytes(32))
    words: list[str | Path] = [cpp_runner, package, tmp_path / "y", tmp_path / "x", "4"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "[CPP540] processes share memory of group '0'" in done.stderr
    assert '%s = alloc_storage 16 @cuda:0 symmetric("0", 5)' in done.stderr
    assert "hint: load the library in a process of Python with cpp_wrapper.load" in done.stderr

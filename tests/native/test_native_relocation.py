"""Native programs that run from a folder with their sources, where debuggers find the lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from cpp_wrapper import CppOptions
from cpp_wrapper.emitter import CppEmitter
from cpp_wrapper.library.native import NativeProgram
from tests.cpp.cpp_case import KERNELS, artifact_of_text

_TEXT = """
extern "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"
const %c : f32[8]

func @main(%x: f32[8]) {
  %y = alloc f32[8]
  launch @double(%x, %y, 8)
  %sums = call aten::cumsum(%y, 0) : f32[8]
  return %sums, %c
}
"""


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_a_program_runs_from_a_folder(tmp_path: Path, weights: str) -> None:
    emitter = CppEmitter(options=CppOptions(runtime="native", opt_level=0, weights=weights))
    artifact = artifact_of_text(KERNELS + _TEXT, {"c": torch.arange(8.0)})
    program = emitter.compile(artifact)
    assert isinstance(program, NativeProgram)
    x, before = torch.ones(8), program.path
    kept = program.boxed([x])
    files = emitter.relocate(program, artifact, tmp_path / "code")
    assert files[0] == tmp_path / "code" / "program.cpp"
    assert program.path in files
    assert program.path != before
    assert str(program.path) in Path("/proc/self/maps").read_text()
    command = ["objdump", "--dwarf=decodedline", str(program.path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{files[0]}:" in lines
    for results in (kept, program.boxed([x])):
        assert results[0].tolist() == [2.0 * n for n in range(1, 9)]
        assert results[1].tolist() == list(range(8))
    program.update_constants({"c": torch.zeros(8)})
    assert program.boxed([x])[1].tolist() == [0.0] * 8
    assert emitter.relocate(program, artifact, tmp_path / "code") == files

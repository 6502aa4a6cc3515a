"""Constants that share one storage, in Python modules: in memory, and in a folder."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import torch

import py_wrapper
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact

TEXT = """wir 0.5
target cpu

mutable const %b : f32[2] buffer storage("s", 8)
mutable const %a : f32[2, 2]{1, 2} buffer names("m.a", "n.a") storage("s", 0)
mutable const %n : i32[1] storage("s", 12)
const %w : f32[2] parameter names("w")

extern "aten::neg(Tensor self) -> Tensor"

func @main() {
  copy %b, %w
  %y = call aten::neg(%a) : f32[2, 2]{1, 2}
  return %y, %n
}
"""
SIX = struct.unpack("i", struct.pack("f", 6))[0]


def artifact() -> Artifact:
    data = {
        "s": TensorData(ir.DType.U8, memoryview(struct.pack("4f", 1, 2, 3, 4))),
        "w": TensorData(ir.DType.F32, memoryview(struct.pack("2f", 5, 6))),
    }
    return bare_artifact(parse_program(TEXT), data)


def test_a_write_shows_in_the_constants_over_it() -> None:
    y, n = py_wrapper.compile(artifact())()
    assert torch.equal(y, torch.tensor([[-1.0, -5.0], [-2.0, -6.0]]))
    assert n.tolist() == [SIX]


def test_every_module_has_state_of_its_own() -> None:
    first, second = py_wrapper.compile(artifact()), py_wrapper.compile(artifact())
    first()
    assert second()[1].data_ptr() != first()[1].data_ptr()


def test_a_folder_runs_alone(tmp_path: Path) -> None:
    (module,) = [p for p in py_wrapper.write(artifact(), tmp_path) if p.suffix == ".py"]
    code = f"import {module.stem} as m; y, n = m.forward(); print(y.tolist(), n.tolist())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"[[-1.0, -5.0], [-2.0, -6.0]] [{SIX}]\n", done.stderr

"""Results that may be memory of an immutable constant: refused, unless cloned or declared mutable."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch

import cpp_wrapper
import wrapper_ir
from cpp_wrapper import CppOptions
from tests.common.input_engines import Run, engines
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.errors import VerificationError

HEAD = """wir 0.5
target cpu

const %w : f32[8]
extern "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
extern "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)" tags(may_alias)
"""
OPERATOR = """
func @main(%p: bool[]) {
  drop %p
  %y = call aten::reshape(%w, [8]) : f32[8]
RETURN
}
"""
BRANCH = """
func @main(%p: bool[]) {
  %y = cond %p then @weight else @made () : f32[8]
  drop %p
RETURN
}

func @weight() {
  return %w
}

func @made() {
  %z = call aten::clone(%w) : f32[8]
  return %z
}
"""
SUBGRAPH = """
func @main(%p: bool[]) {
  drop %p
  %y = call_subgraph @hands_on() : f32[8]
RETURN
}

func @hands_on() {
  %y = call aten::reshape(%w, [8]) : f32[8]
  return %y
}
"""
PROGRAMS = {"operator": OPERATOR, "branch": BRANCH, "subgraph": SUBGRAPH}
RETURNED = "  return %y"
CLONED = "  %c = call aten::clone(%y) : f32[8]\n  drop %y\n  return %c"


def _artifact(name: str, end: str, *, mutable: bool = False) -> Artifact:
    text = HEAD + PROGRAMS[name].replace("RETURN", end)
    if mutable:
        text = text.replace("const %w", "mutable const %w")
    program = wrapper_ir.parse_program(text)
    wrapper_ir.verify(program)
    data = struct.pack("<8f", *range(8))
    return bare_artifact(program, {"w": TensorData(ir.DType.F32, memoryview(data))})


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_result_that_may_be_a_constant_is_refused(name: str) -> None:
    with pytest.raises(VerificationError, match=r"WIR229.*%y may be memory of the constant %w"):
        _artifact(name, RETURNED)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_clone_of_it_belongs_to_the_caller(name: str, tmp_path: Path) -> None:
    artifact = _artifact(name, CLONED)
    library = cpp_wrapper.build(artifact, tmp_path / "model.so", CppOptions(opt_level=0))
    loaded = cpp_wrapper.load(library)
    runs: dict[str, Run] = {**engines(artifact, tmp_path), "cpp": lambda args: loaded(*args)}
    for engine, run in runs.items():
        for taken in (True, False):
            (result,) = run([torch.tensor(taken)])
            torch.testing.assert_close(result, torch.arange(8.0), msg=engine)
            result.fill_(-1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mutable_constant_is_returned(name: str, tmp_path: Path) -> None:
    """It is the model's state, which callers may write."""
    for engine, run in engines(_artifact(name, RETURNED, mutable=True), tmp_path).items():
        (result,) = run([torch.tensor(True)])
        result.fill_(-1)
        (result,) = run([torch.tensor(True)])
        torch.testing.assert_close(result, torch.full((8,), -1.0), msg=engine)
        result.copy_(torch.arange(8.0))

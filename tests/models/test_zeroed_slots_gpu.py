"""Slots that begin as zeros on a CUDA device, on two streams: emitted Python, FX graphs and C++ libraries,
call after call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

import cpp_wrapper
import fx_converter
import py_wrapper
from fx_converter import FxOptions
from py_wrapper import PyOptions
from tests.cpp.cpp_case import FAST
from wrapper_ir import parse_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact

TEXT = """wir 0.5
target cuda:0 arch "sm_90"

extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
func @main(%x: f32[32, 32]) {
  %pool = alloc_storage 8192 pool
  %a.s = slot %pool + 2048 : 4096
  %a = view %a.s : f32[32, 32]
  copy %a, %x
  free %a.s
  %b.s = slot %pool + 4096 : 4096 zero(call)
  %b = view %b.s : f32[32, 32]
  %r = alloc f32[32, 32]
  call aten::addmm.out(%b, %x, %x, out=%r)
  free %b.s
  free %pool
  %begun = record_event @cuda:0
  wait_event %begun @cuda:0 stream(1)
  drop %begun
  %other = alloc_storage 4096 pool stream(1)
  %c.s = slot %other : 4096 zero(call) stream(1)
  %c = view %c.s : f32[32, 32]
  %q.s = alloc_storage 4096 stream(1)
  %q = view %q.s : f32[32, 32]
  call aten::addmm.out(%c, %r, %x, out=%q) stream(1)
  free %c.s
  free %other
  %done = record_event @cuda:0 stream(1)
  wait_event %done @cuda:0
  drop %done
  drop %x
  return %r, %q
}
"""
Run = Callable[[list[Tensor]], Sequence[object]]
ENGINES: dict[str, Callable[[Artifact, Path], Run]] = {
    "Python": lambda art, _: py_wrapper.compile(art).boxed,
    "Python, poisoned": lambda art, _: py_wrapper.compile(art, PyOptions(poison=0x7B)).boxed,
    "Python, persistent": lambda art, _: py_wrapper.compile(art, PyOptions(persistent_buffers=True)).boxed,
    "FX": lambda art, _: fx_converter.compile(art, FxOptions(convention="flat")).boxed,
    "FX, operators": lambda art, _: (
        fx_converter.compile(art, FxOptions(convention="flat", kernel_calls="hop")).boxed
    ),
    "C++": lambda art, folder: _library(art, folder),
}


def _library(artifact: Artifact, folder: Path) -> Run:
    program = cpp_wrapper.load(cpp_wrapper.build(artifact, folder / "zeros.so", FAST))
    return lambda args: tuple(program(*args))


def test_the_program_is_right() -> None:
    verify(parse_program(TEXT))


def test_poison_is_written_on_the_stream_of_its_memory() -> None:
    text = py_wrapper.emit(bare_artifact(parse_program(TEXT)), PyOptions(poison=0x7B)).source
    fills = re.findall(r"^( +)(?:poisoned\(other\)|window\(other, .*fill_\(123\))$", text, re.MULTILINE)
    assert len(fills) == 3  # at the slot's begin and end, and at the pool's end
    assert {len(indent) for indent in fills} == {12}  # inside the guard of `stream1`


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="slots on a CUDA device, and there is none")
@pytest.mark.parametrize("engine", ENGINES)
def test_on_a_device(engine: str, tmp_path: Path) -> None:
    run = ENGINES[engine](bare_artifact(parse_program(TEXT)), tmp_path)
    x = torch.randn(32, 32, device="cuda")
    for _ in range(20):
        torch.empty(1 << 16, device="cuda").fill_(float("nan"))  # content of the allocator's next memory
        r, q = run([x])
        torch.testing.assert_close(r, x @ x)
        torch.testing.assert_close(q, x @ x @ x)

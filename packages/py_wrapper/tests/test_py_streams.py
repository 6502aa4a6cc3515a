"""Streams, events, device guards and memory of an accelerator: the text, and on a GPU what it computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from packages.py_wrapper.tests.test_py_golden import without_version

import py_wrapper
from py_wrapper import TORCH_MACHINE, PyOptions
from wrapper_ir import parse_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.interp import run

GOLDEN = Path(__file__).parent / "golden" / "streams.py.txt"

STREAMS = """wir 0.2
target cuda:0 arch "sm_90"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
func @main(%x: f32[512, 512], %w: f32[512, 512]) {
  %begun = record_event @cuda:0
  wait_event %begun @cuda:0 stream(1)
  drop %begun
  %a.s = alloc_storage 1048576 stream(1)
  %a = view %a.s : f32[512, 512]
  call aten::mm.out(%x, %w, out=%a) stream(1)
  %done = record_event @cuda:0 stream(1)
  %ws = alloc_storage 1024 workspace zero(call)
  %counts = view %ws : f32[256]
  %b = alloc f32[512, 512]
  call aten::mm.out(%w, %x, out=%b)
  wait_event %done @cuda:0
  drop %done
  %sum = alloc f32[512, 512]
  call aten::add.out(%a, %b, out=%sum)
  %added = record_event @cuda:0
  wait_event %added @cuda:0 stream(1)
  drop %added
  free %a.s
  free %b.s
  %host = alloc f32[512, 512] @cpu
  copy %host, %sum non_blocking
  %copied = record_event @cuda:0
  sync_event %copied
  drop %copied
  return %sum, %host, %counts
}
"""


def artifact() -> Artifact:
    program = parse_program(STREAMS)
    verify(program)
    return bare_artifact(program)


def test_text(update_golden: bool) -> None:
    text = without_version(py_wrapper.emit(artifact(), PyOptions(name="streams")).source)
    if update_golden:
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_streams_are_made_once_for_each_device() -> None:
    text = STREAMS.replace("@cuda:0 stream(1)", "@cuda:1 stream(1)", 1)
    source = py_wrapper.emit(bare_artifact(parse_program(text))).source
    assert source.count("torch.cuda.Stream(") == 2
    assert source.count('stream1 = torch.cuda.Stream("cuda:1")') == 1
    assert source.count('stream1_1 = torch.cuda.Stream("cuda:0")') == 1


def test_events_of_the_host_have_happened() -> None:
    text = "wir 0.2\ntarget cpu\nfunc @main(%x: f32[4]) {\n  %e = record_event @cpu\n  wait_event %e @cpu\n  sync_event %e\n  return %x\n}\n"
    compiled = py_wrapper.compile(bare_artifact(parse_program(text)))
    x = torch.ones(4)
    assert compiled.boxed([x])[0] is x


@pytest.mark.gpu
def test_on_a_device() -> None:
    x, w = (torch.randn(512, 512, device="cuda:0") for _ in range(2))
    compiled = py_wrapper.compile(artifact())
    want = x @ w + w @ x
    for results in (
        compiled.boxed([x, w]),
        compiled.boxed([x, w]),
        run(artifact(), [x, w], TORCH_MACHINE),
    ):
        sums, host, counts = results
        torch.testing.assert_close(sums, want)
        torch.testing.assert_close(host, want.cpu())
        assert counts.device == x.device
        assert not counts.any()

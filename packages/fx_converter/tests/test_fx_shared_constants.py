"""Constants that share one storage, in graph modules and their files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch

import fx_converter
from fx_converter.errors import ConvertError
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.artifact import file as storage

TEXT = """wir 0.5
target cpu

mutable const %b : f32[2] buffer storage("s", 8)
mutable const %a : f32[2, 2]{1, 2} buffer names("m.a", "n.a") storage("s", 0)

extern "aten::neg(Tensor self) -> Tensor"

func @main(%w: f32[2]) {
  copy %b, %w
  %y = call aten::neg(%a) : f32[2, 2]{1, 2}
  return %y
}
"""
W = torch.tensor([5.0, 6.0])
WANT = torch.tensor([[-1.0, -5.0], [-2.0, -6.0]])


def artifact(stored: bytes = struct.pack("4f", 1, 2, 3, 4)) -> Artifact:
    return bare_artifact(parse_program(TEXT), {"s": TensorData(ir.DType.U8, memoryview(stored))})


def test_a_write_shows_in_the_constant_over_it() -> None:
    assert torch.equal(fx_converter.convert(artifact())(W)[0], WANT)


def test_storage_that_ends_too_early() -> None:
    with pytest.raises(ConvertError, match=r"FX102.*16 bytes"):
        fx_converter.convert(artifact(bytes(12)))


def test_what_is_loaded_into_one_shows_in_the_other(tmp_path: Path) -> None:
    module = fx_converter.convert(artifact())
    names = [name for name, _ in module.named_buffers()]
    module.load_state_dict({names[1]: torch.tensor([[7.0, 9.0], [8.0, 10.0]])}, strict=False)
    assert module.get_buffer(names[0]).tolist() == [9.0, 10.0]
    fx_converter.save(module, tmp_path / "g.wir")
    assert bytes(storage.load(tmp_path / "g.wir").constants["s"].buffer) == struct.pack("4f", 7, 8, 9, 10)
    back = fx_converter.load(tmp_path / "g.wir")
    assert torch.equal(back(W)[0], torch.tensor([[-7.0, -5.0], [-8.0, -6.0]]))


def test_one_that_got_other_memory_is_one_of_its_own(tmp_path: Path) -> None:
    module = fx_converter.convert(artifact())
    names = [name for name, _ in module.named_buffers()]
    module.get_buffer(names[0]).data = torch.tensor([11.0, 12.0])
    fx_converter.save(module, tmp_path / "g.wir")
    again = fx_converter.load(tmp_path / "g.wir")
    values = dict(again.named_buffers())
    assert values[names[0]].tolist() == [11.0, 12.0]
    assert values[names[1]].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert torch.equal(again(W)[0], module(W)[0])

"""Kernels that rely on the alignment of tensors: run-time checks in every engine, and cases without a check."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.common.input_engines import artifact_of, engines
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.errors import WirError

HEAD = """symbol s0 : int backed [1, 64]

extern "aten::alias(Tensor(a) self) -> Tensor(a)" tags(may_alias)

kernel cpp @double entry "twice" (read f32* in divisible(16), write f32* out divisible(16)) {{{
#include <cstdint>
extern "C" void twice(const float* in, float* out) {
  for (int i = 0; i < 4; ++i) out[i] = (reinterpret_cast<std::uintptr_t>(in) % 16) ? -1.0f : 2 * in[i];
}
}}}

"""
INPUT = """func @main(%x: f32[4]) {
  %y = alloc f32[4]
  launch @double(%x, %y)
  drop %x
  return %y
}
"""
COPIED = INPUT.replace("  %y = alloc", "  %x.a = ensure_aligned %x, 16\n  drop %x\n  %y = alloc").replace(
    "@double(%x, %y)\n  drop %x", "@double(%x.a, %y)\n  drop %x.a"
)
OFFSET = """func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %s = alloc_storage 512 zero(call)
  %v = view %s + s0*4 : f32[4]
  %y = alloc f32[4]
  launch @double(%v, %y)
  free %s
  drop %x
  return %y
}
"""
CALLEE = """func @main(%x: f32[4]) {
  %y = call_subgraph @f(%x) : f32[4]
  drop %x
  return %y
}

func @f(%a: f32[4]) {
  %y = alloc f32[4]
  launch @double(%a, %y)
  drop %a
  return %y
}
"""
LIBRARY = """func @main(%x: f32[4]) {
  %v = call aten::alias(%x) : f32[4]
  %y = alloc f32[4]
  launch @double(%v, %y)
  drop %v
  drop %x
  return %y
}
"""


def at(offset: int) -> torch.Tensor:
    """Four numbers, so many elements after an aligned address."""
    return torch.arange(16.0)[offset : offset + 4]


def results(text: str, make: Any, folder: Path) -> dict[str, Any]:  # Any: inputs and results
    """Returns the result of each engine: numbers, or the code of its error."""
    return found(artifact_of(HEAD + text), make, folder)


def found(artifact: Artifact, make: Any, folder: Path) -> dict[str, Any]:
    """As `results`, of an artifact."""
    outcomes: dict[str, Any] = {}
    for name, run in engines(artifact, folder).items():
        try:
            made = run(make())
        except WirError as error:
            outcomes[name] = error.code
        else:
            (value,) = made if isinstance(made, (tuple, list)) else (made,)
            outcomes[name] = value.tolist()
    return outcomes


@pytest.mark.parametrize("text", [INPUT, CALLEE, LIBRARY], ids=["input", "callee", "library"])
def test_an_address_that_nothing_is_known_of_is_checked(text: str, tmp_path: Path) -> None:
    assert set(map(str, results(text, lambda: [at(4)], tmp_path).values())) == {"[8.0, 10.0, 12.0, 14.0]"}
    assert set(results(text, lambda: [at(1)], tmp_path).values()) == {"WIR921"}


def test_an_aligned_copy_is_taken(tmp_path: Path) -> None:
    assert set(map(str, results(COPIED, lambda: [at(1)], tmp_path).values())) == {"[2.0, 4.0, 6.0, 8.0]"}


def test_an_offset_is_checked_where_its_symbols_are_defined(tmp_path: Path) -> None:
    assert set(map(str, results(OFFSET, lambda: [torch.ones(8)], tmp_path).values())) == {
        "[0.0, 0.0, 0.0, 0.0]"
    }
    assert set(results(OFFSET, lambda: [torch.ones(5)], tmp_path).values()) == {"WIR920"}


@pytest.mark.parametrize("mutable", ["", "mutable "])
def test_constants_are_aligned(mutable: str, tmp_path: Path) -> None:
    """The bytes that an artifact brings may begin anywhere."""
    text = f"""{mutable}const %w : f32[4]
{HEAD}func @main(%x: f32[4]) {{
  drop %x
  %y = alloc f32[4]
  launch @double(%w, %y)
  return %y
}}
"""
    data = TensorData(ir.DType.F32, memoryview(bytearray(struct.pack("16f", *range(16))))[4:20])
    artifact = bare_artifact(artifact_of(text).program, {"w": data})
    outcomes = found(artifact, lambda: [at(0)], tmp_path)
    assert set(map(str, outcomes.values())) == {"[2.0, 4.0, 6.0, 8.0]"}

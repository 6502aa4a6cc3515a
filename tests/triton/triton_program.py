"""A program with Triton kernels, and torch's result for it."""

from __future__ import annotations

import torch
from torch import Tensor

from wrapper_ir import parse_program, print_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact

PROGRAM = """wir 0.5
target cpu

symbol s0 : int backed [2, 100000] hint 8

kernel triton @add_relu entry "add_relu" (read f32* x_ptr divisible(16), read f32* y_ptr divisible(16), write f32* out_ptr divisible(16), i64 n)
  order(x_ptr, y_ptr, out_ptr, n, BLOCK)
  configs({BLOCK = 256} warps(4) stages(1), {BLOCK = 64} warps(2) stages(1))
  grid(min(ceildiv(n, BLOCK), g), ceildiv(ceildiv(n, BLOCK), g)) over(g)
  {{{
import triton
import triton.language as tl

@triton.jit
def add_relu(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    block = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, tl.maximum(total, 0.0), mask=inside)
}}}
kernel triton @gelu_ entry "gelu" (readwrite f32* x_ptr, i64 n)
  order(x_ptr, n, scale, BLOCK)
  constants(scale = 0.5)
  configs({BLOCK = 128} warps(4) stages(1))
  grid(ceildiv(n, BLOCK))
  {{{
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def gelu(x_ptr, n, scale: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(x_ptr + at, x * scale * (1 + libdevice.erf(x * 0.7071067811865476)), mask=at < n)
}}}

func @main(%x: f32[s0, 3], %y: f32[s0, 3]) {
  define s0 = size(%x, 0)
  %out = alloc f32[s0, 3]
  launch @add_relu(%x, %y, %out, 3*s0) grid(2)
  launch @gelu_(%out, 3*s0)
  return %out
}
"""


def expected(x: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.gelu((x + y).relu())


def artifact() -> Artifact:
    program = parse_program(PROGRAM)
    verify(program)
    assert parse_program(print_program(program)) == program
    return bare_artifact(program)

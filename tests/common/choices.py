"""Programs with kernels among which one is chosen, and with descriptors of tensors."""

from __future__ import annotations

import wrapper_ir
from wrapper_ir.artifact import Artifact, bare_artifact

HEAD = "wir 0.5\ntarget cpu\n\nsymbol s0 : int backed [2, 4096] hint 100\n"
KERNELS = """
kernel triton @whole entry "whole" (read f32* x, write f32* out, i64 n)
  order(x, out, n, BLOCK)
  configs({BLOCK = 64} warps(4) stages(1))
  grid(ceildiv(n, BLOCK))
  {{{
import triton
import triton.language as tl

@triton.jit
def whole(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
}}}
kernel triton @split entry "split" (read f32* x, write f32* out, i64 n, readwrite i64* ws)
  order(x, out, n, ws, BLOCK)
  configs({BLOCK = 16} warps(2) stages(1))
  grid(rows) over(rows)
  {{{
import triton
import triton.language as tl

@triton.jit
def split(x, out, n, ws, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = tl.load(ws + row) + row * BLOCK
    i = start + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
    tl.store(ws + row, start * 0)
}}}
kernel multi @either choose CHOICE (read f32* x, write f32* out, i64 n, readwrite i64* ws) over(rows)
  variants(
    @whole(0, 1, 2)HINTS_0,
    @split(0, 1, 2, 3) grid(0)HINTS_1,
  )
"""
MAIN = """
func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %ws.s = alloc_storage 8*ceildiv(s0, 16) workspace zero(call)
  %ws = view %ws.s : i64[ceildiv(s0, 16)]
  %out = alloc f32[s0]
  launch @either(%x, %out, s0, %ws) grid(ceildiv(s0, 16))
  free %ws.s
  return %out
}
"""
SIZES = {"HINTS_0": " hints((1024), (1024))", "HINTS_1": " hints((16), (16), (2))"}
DESCRIBED = """
kernel triton @described entry "described" (read f32[] x block(ROWS, 16), readwrite f32[] out block(ROWS, 16))
  order(x, out, ROWS, COLUMNS)
  constants(COLUMNS = 16)
  configs({ROWS = 32} warps(4) stages(3))
  grid(g0, g1) over(g0, g1)
  {{{
import triton
import triton.language as tl

@triton.jit
def described(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    out.store([row, column], x.load([row, column]) * 2)
}}}

func @main(%x: f32[s0, 48]) {
  define s0 = size(%x, 0)
  %out = alloc f32[s0, 48] zero(call)
  launch @described(%x, %out) grid(ceildiv(s0, 32), 3)
  return %out
}
"""


def program(body: str, device: str = "") -> Artifact:
    """Parses the program, for the CPU or for a device that may be absent."""
    text = HEAD + body
    if device:
        text = text.replace("target cpu", f'target {device} arch "sm_90"')
    parsed = wrapper_ir.parse_program(text)
    wrapper_ir.verify(parsed)
    return bare_artifact(parsed)


def choosing(by_sizes: bool) -> str:
    text = (KERNELS + MAIN).replace("CHOICE", "size_hints" if by_sizes else "measure")
    for mark, hints in SIZES.items():
        text = text.replace(mark, hints if by_sizes else "")
    return text

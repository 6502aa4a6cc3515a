"""Small programs with slots of pools."""

from __future__ import annotations

import torch
from packages.py_wrapper.tests.py_case import KERNELS, Case, example

POOL_CASES: tuple[Case, ...] = (
    Case(
        name="pool_of_one_dtype",
        text=KERNELS
        + """
func @main(%x: f32[s0, 8]) {
  define s0 = size(%x, 0)
  %pool = alloc_storage s0*64 pool
  %a.s = slot %pool : s0*32
  %a = view %a.s : f32[s0, 8]
  %b.s = slot %pool + s0*32 : s0*32
  %b = view %b.s : f32[s0, 8]
  launch @double(%x, %a, s0*8)
  launch @double(%a, %b, s0*8)
  free %a.s
  %r = alloc f32[s0, 8]
  copy %r, %b
  free %b.s
  free %pool
  return %r
}
""",
        inputs=lambda: [example(3, 8)],
        expected=lambda x: (x * 4,),
    ),
    Case(
        name="a_pool_that_nothing_uses",
        text="func @main(%x: f32[2]) {\n  %pool = alloc_storage 512 pool\n  %a = slot %pool : 32\n"
        "  free %a\n  free %pool\n  return %x\n}\n",
        inputs=lambda: [example(2)],
        expected=lambda x: (x,),
    ),
    Case(
        name="slots_of_zeros",
        text=KERNELS
        + """
func @main(%x: f32[s0, 8]) {
  define s0 = size(%x, 0)
  %pool = alloc_storage s0*32 pool
  %a.s = slot %pool : s0*32
  %a = view %a.s : f32[s0, 8]
  launch @double(%x, %a, s0*8)
  %r = alloc f32[s0, 8]
  copy %r, %a
  free %a.s
  %b.s = slot %pool : s0*32 zero(call)
  %b = view %b.s : f32[s0, 8]
  %zeros = alloc f32[s0, 8]
  copy %zeros, %b
  free %b.s
  free %pool
  %fixed = alloc_storage 96 pool
  %c.s = slot %fixed + 32 : 64
  %c = view %c.s : f32[2, 8]
  copy %c, %x
  free %c.s
  %d.s = slot %fixed + 32 : 64 zero(call)
  %d = view %d.s + 32 : f32[8]
  %last = alloc f32[8]
  copy %last, %d
  free %d.s
  free %fixed
  return %r, %zeros, %last
}
""",
        inputs=lambda: [example(2, 8)],
        expected=lambda x: (x * 2, torch.zeros(2, 8), torch.zeros(8)),
    ),
    Case(
        name="slots_reused_and_lent",
        text=KERNELS
        + """
extern "aten::lt.Scalar(Tensor self, Scalar other) -> Tensor"
extern "aten::mul.Scalar(Tensor self, Scalar other) -> Tensor"

func @main(%x: f32[8], %p: bool[], %i: i64[]) {
  %pool = alloc_storage 128 pool
  %a.s = slot %pool : 32
  %a = view %a.s : f32[8]
  launch @double(%x, %a, 8)
  %inner = slot %pool + 32 : 64
  %b.s = slot %inner + 32 : 32
  %b = view %b.s : f32[8]
  launch @double(%a, %b, 8)
  free %a.s
  %c.s = slot %pool : 32
  %c = reuse %c.s : i32[8]
  %d = view %c : f32[8]
  launch @double(%b, %d, 8)
  free %b.s
  %y = cond %p then @twice else @once (%d, %inner) : f32[8]
  %j, %z = while @small do @grow carried(%i, %y) captured(%inner) : i64[], f32[8]
  free %j
  free %y
  free %inner
  free %c.s
  free %pool
  return %z
}

func @twice(%x: f32[8], %room: storage(64)) {
  %a.s = slot %room + 32 : 32
  %a = view %a.s : f32[8]
  launch @double(%x, %a, 8)
  %low = slot %room : 32
  %r = call_subgraph @once(%a, %low) : f32[8]
  free %low
  free %a.s
  return %r
}

func @once(%x: f32[8], %room: storage(32)) {
  %a = view %room : f32[8]
  launch @double(%x, %a, 8)
  %r = alloc f32[8]
  copy %r, %a
  return %r
}

func @small(%i: i64[], %x: f32[8], %room: storage(64)) {
  %go = call aten::lt.Scalar(%i, 4) : bool[]
  return %go
}

func @grow(%i: i64[], %x: f32[8], %room: storage(64)) {
  %low = slot %room : 32
  %r = call_subgraph @once(%x, %low) : f32[8]
  free %low
  %j = call aten::mul.Scalar(%i, 2) : i64[]
  return %j, %r
}
""",
        inputs=lambda: [example(8), torch.tensor(True), torch.tensor(1)],
        expected=lambda x, p, i: (x * 128,),
    ),
)

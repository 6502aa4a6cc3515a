"""Small programs that together contain every op of the IR."""

from __future__ import annotations

import math

import torch
from packages.py_wrapper.tests.py_case import ADD, KERNELS, MM, RELU, TOPK, Case, example
from packages.py_wrapper.tests.py_control_programs import CONTROL_CASES
from packages.py_wrapper.tests.py_pool_programs import POOL_CASES

CASES: tuple[Case, ...] = (
    Case(
        name="mlp",
        text=MM
        + KERNELS
        + """
func @main(%x: f32[s0, 8], %w: f32[8, 4]) {
  define s0 = size(%x, 0)  #1
  assert_layout %x [s0, 8] [8, 1] "input"  #1
  assert_layout %w [8, 4] [4, 1] align(4)
  assert s0 <= 1024 "batch too large"
  %buf0 = alloc f32[s0, 4]  #1
  call aten::mm.out(%x, %w, out=%buf0)  #1
  %buf1 = alloc f32[s0, 4]  #2
  launch @double(%buf0, %buf1, s0*4)  #2
  free %buf0.s
  %buf2 = reuse %buf1 : f32[s0, 4]  #3
  launch @increment(%buf2)  #3
  return %buf2, s0*2, none
}

provenance
  #1 nodes("mm") ops("aten.mm.default") at("model.py:10") modules("layers.0")
  #2 nodes("mul") ops("aten.mul.Tensor") at("model.py:11") modules("layers.0")
  #3 nodes("add") ops("aten.add.Tensor") at("model.py:12") modules("layers.1")
""",
        inputs=lambda: [example(5, 8), example(8, 4)],
        expected=lambda x, w: (x @ w * 2 + 1, 10, None),
    ),
    Case(
        name="storages",
        text=KERNELS
        + """
func @main(%x: f32[4, 8]) {
  comment "one storage, three tensors of two types"
  %pool = alloc_storage 512 zero(call)
  %a = view %pool : f32[4, 8]
  %b = view %pool + 128 : f32[8, 4]{1, 8}
  %i = view %pool + 256 : i64[4]
  %i2 = view %i + 8 : i32[2]
  launch @double(%x, %a, 32)
  %t = view %a : f32[8, 4]{1, 8}
  copy %b, %t
  %r = alloc f32[8, 4]
  copy %r, %b
  %j = alloc i32[2]
  copy %j, %i2
  free %pool
  return %r, %j
}
""",
        inputs=lambda: [example(4, 8)],
        expected=lambda x: ((x * 2).t().contiguous(), torch.zeros(2, dtype=torch.int32)),
    ),
    *POOL_CASES,
    Case(
        name="results",
        text=TOPK
        + RELU
        + """
func @main(%x: f32[4, 8], %n: int) {
  define s0 = item(%n)
  %t = call aten::topk(%x, s0, largest=true) : results
  %values = unpack %t[0] : f32[4, 3]
  %indices = unpack %t[1] : i64[4, 3]
  drop %t
  %y = call aten::relu(%values) : f32[4, 3]
  free %values
  return %y, %indices
}
""",
        inputs=lambda: [example(4, 8), 3],
        expected=lambda x, n: (torch.relu(torch.topk(x, n)[0]), torch.topk(x, n)[1]),
    ),
    Case(
        name="unpack_whole",
        text=RELU
        + """
func @main(%x: f32[4]) {
  %t = call aten::relu(%x) : results
  %y = unpack %t : f32[4]
  drop %t
  return %y
}
""",
        inputs=lambda: [example(4)],
        expected=lambda x: (torch.relu(x),),
    ),
    Case(
        name="nested_arguments",
        text="""
extern "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
extern "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"
extern "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
extern "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)" tags(may_alias)

func @main(%x: f32[2, 3], %i: i64[2]) {
  %c = call aten::cat([%x, %x], dim=1) : f32[2, 6]
  %d = call aten::index.Tensor(%c, [none, %i]) : f32[2, 2]
  free %c
  %e = call aten::full([2, 2], 1.5, dtype=f64, layout=layout(strided), device=device(cpu), pin_memory=false) : f64[2, 2]
  %f = call aten::contiguous(%d, memory_format=memory_format(contiguous_format)) : f32[2, 2]
  %g = alloc f64[2, 2]
  copy %g, %f
  drop %f
  free %d
  return %g, %e
}
""",
        inputs=lambda: [example(2, 3), torch.tensor([5, 1])],
        expected=lambda x, i: (
            torch.cat([x, x], 1)[:, i].double(),
            torch.full((2, 2), 1.5, dtype=torch.float64),
        ),
    ),
    Case(
        name="complex_arguments",
        text="""
extern "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
extern "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor"

func @main(%x: c64[3]) {
  %y = call aten::mul.Tensor(%x, complex(0.5, -2.0)) : c64[3]
  %z = call aten::full([2], complex(-inf, -0.5), dtype=c64) : c64[2]
  return %y, %z
}
""",
        inputs=lambda: [torch.complex(example(3), example(3))],
        expected=lambda x: (x * complex(0.5, -2), torch.full((2,), complex(-math.inf, -0.5))),
    ),
    Case(
        name="symbols",
        text=ADD
        + """
extern "aten::nonzero(Tensor self) -> Tensor"

func @main(%x: f32[s0, s1]{s1, 1}, %p: f32[]) {
  define s0 = size(%x, 0)
  define s1 = stride(%x, 0) + offset(%x)
  define u1 = item(%p)
  %n = call aten::nonzero(%x) : i64[u0, 2]{1, u0}
  define u0 = size(%n, 0)
  assert u0 <= s0*s1 and u1 < 10.0 "count"
  free %n
  return s0, s1, u0, u1*2.0, where(s0 == 4, 1, 0)
}
""",
        inputs=lambda: [example(4, 6), torch.tensor(2.5)],
        expected=lambda x, p: (4, 6, 24, 5.0, 1),
    ),
    Case(
        name="aligned",
        text=KERNELS
        + """
func @main(%x: f32[8]) {
  %x.a = ensure_aligned %x, 16
  %buf0 = alloc f32[8]
  launch @double(%x.a, %buf0, 8)
  drop %x.a
  return %buf0
}
""",
        inputs=lambda: [example(9)[1:]],
        expected=lambda x: (x * 2,),
    ),
    Case(
        name="checks",
        text=RELU
        + """
func @main(%x: f32[8], %i: i64[2]) {
  assert_finite %x "argument 0"
  assert_finite %i
  %y = call aten::relu(%x) : f32[8]
  assert_layout %y [8] [1] align(4) "aten::relu"
  debug names %y "after relu"
  debug print %y
  return %y
}
""",
        inputs=lambda: [example(8), torch.tensor([1, 2])],
        expected=lambda x, i: (torch.relu(x),),
    ),
    Case(
        name="mutation",
        text=KERNELS
        + """
mutable const %state : f32[4]
const %weight : f32[2, 2]

func @main(%x: f32[4], %d: owned f32[4]) {
  %w = view %weight : f32[2, 2]{1, 2}
  %flat = alloc f32[2, 2]
  copy %flat, %w
  launch @increment(%state)
  copy %x, %state non_blocking
  free %d
  %r = alloc f32[4]
  copy %r, %state
  return %flat, %r
}
""",
        inputs=lambda: [example(4), example(4)],
        expected=lambda x, d: (torch.tensor([[1.0, 3.0], [2.0, 4.0]]), torch.ones(4)),
        after=lambda x: (torch.ones(4),),
        constants={"state": torch.zeros(4), "weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]])},
    ),
    Case(
        name="storage_changes",
        text="""
func @main(%x: f32[4], %y: f32[4]) {
  resize_storage %x, 32
  resize_storage %x, 16
  set_storage %x, %y
  return
}
""",
        inputs=lambda: [example(4), example(4) + 1],
        expected=lambda x, y: (),
        after=lambda x, y: (y, y),
    ),
    *CONTROL_CASES,
    Case(
        name="packed",
        text="""
func @main(%x: u8[4]) {
  %v = view %x : f4e2m1fnx2[2, 2]
  %y = alloc f4e2m1fnx2[2, 2]
  copy %y, %v
  %z = view %y : u8[4]
  return %z
}
""",
        inputs=lambda: [torch.tensor([1, 35, 130, 255], dtype=torch.uint8)],
        expected=lambda x: (x,),
    ),
    Case(
        name="events",
        text="""
func @main(%x: f32[4]) {
  %e = record_event
  wait_event %e
  sync_event %e
  drop %e
  barrier
  %y = alloc f32[4]
  copy %y, %x
  return %y
}
""",
        inputs=lambda: [example(4)],
        expected=lambda x: (x,),
    ),
    Case(
        name="scopes",
        text="""
func @main(%x: f32[4]) {
  enter_profile "outer"
  enter_profile "copy" "of %x"
  %y = alloc f32[4]
  copy %y, %x
  exit_scope
  enter_profile "nothing"
  exit_scope
  exit_scope
  return %y
}
""",
        inputs=lambda: [example(4)],
        expected=lambda x: (x,),
    ),
    Case(
        name="odd_names",
        text=RELU
        + """
func @main(%"class": f32[4], %"torch": f32[4], %"a.b": f32[4], %a_b: f32[4], %"2x": f32[4]) {
  %args = call aten::relu(%"class") : f32[4]
  %main = call aten::relu(%"torch") : f32[4]
  %relu = call aten::relu(%"a.b") : f32[4]
  %boxed = call aten::relu(%a_b) : f32[4]
  %len = call aten::relu(%"2x") : f32[4]
  return %args, %main, %relu, %boxed, %len
}
""",
        inputs=lambda: [example(4) + i for i in range(5)],
        expected=lambda *xs: tuple(torch.relu(x) for x in xs),
    ),
)

"""Programs that together hold every step that this edition writes."""

from __future__ import annotations

import torch

from tests.cpp.cpp_case import KERNELS, Case

__all__ = ["CASES"]

MM = 'extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"\n'
RELU = 'extern "aten::relu(Tensor self) -> Tensor"\n'
TOPK = (
    'extern "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) '
    '-> (Tensor values, Tensor indices)"\n'
)


def _example(*sizes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(sizes) + len(sizes))
    return torch.randn(sizes, generator=generator)


def _packed() -> torch.Tensor:
    return torch.arange(16, dtype=torch.float32)


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
  assert s0 <= 1000 "batch too large"
  comment "the first layer"
  %buf0 = alloc f32[s0, 4]  #1
  call aten::mm.out(%x, %w, out=%buf0)  #1
  %buf1 = alloc f32[s0, 4]  #2
  launch @double(%buf0, %buf1, s0*4)  #2
  free %buf0.s
  %buf2 = reuse %buf1 : f32[s0, 4]  #3
  launch @increment(%buf2, s0*4)  #3
  return %buf2, s0*2
}

provenance
  #1 nodes("mm") ops("aten.mm.default") at("model.py:10") modules("layers.0")
  #2 nodes("mul") ops("aten.mul.Tensor") at("model.py:11") modules("layers.0")
  #3 nodes("add") ops("aten.add.Tensor") at("model.py:12") modules("layers.1")
""",
        inputs=lambda: [_example(5, 8), _example(8, 4)],
        expected=lambda x, w: (x @ w * 2 + 1, 10),
    ),
    Case(
        name="storages",
        text=KERNELS
        + """
func @main(%x: f32[4, 8]) {
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
        inputs=lambda: [_example(4, 8)],
        expected=lambda x: ((x * 2).t().contiguous(), torch.zeros(2, dtype=torch.int32)),
    ),
    Case(
        name="slots",
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
        inputs=lambda: [_example(3, 8)],
        expected=lambda x: (x * 4,),
    ),
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
        inputs=lambda: [_example(4, 8), 3],
        expected=lambda x, n: (torch.relu(torch.topk(x, n)[0]), torch.topk(x, n)[1]),
    ),
    Case(
        name="dispatcher",
        text="""
extern "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
extern "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"
extern "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"
extern "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
extern "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"
extern "aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
extern "aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor"
extern "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"

func @main(%x: f32[2, 3], %i: i64[2]) {
  %c = call aten::cat([%x, %x], dim=1) : f32[2, 6]
  %d = call aten::index.Tensor(%c, [none, %i]) : f32[2, 2]
  %s = call aten::sum.dim_IntList(%c, [1], dtype=f64) : f64[2]
  free %c
  %z = call aten::zeros([2, 2], dtype=f32, layout=layout(strided), device=device(cpu), pin_memory=false) : f32[2, 2]
  %e = call aten::clone(%d, memory_format=memory_format(contiguous_format)) : f32[2, 2]
  %j = call aten::zeros([2, 2], dtype=i64) : i64[2, 2]
  %r = call aten::scatter_reduce.two(%z, 0, %j, %e, "sum") : f32[2, 2]
  %q = call aten::div.Tensor_mode(%e, %e, rounding_mode="floor") : f32[2, 2]
  free %z
  free %j
  free %d
  return %e, %s, %r, %q
}
""",
        inputs=lambda: [_example(2, 3), torch.tensor([5, 1])],
        expected=lambda x, i: (
            torch.cat([x, x], 1)[:, i],
            torch.cat([x, x], 1).sum(1, dtype=torch.float64),
            torch.cat([torch.cat([x, x], 1)[:, i].sum(0, keepdim=True), torch.zeros(1, 2)]),
            torch.ones(2, 2),
        ),
    ),
    Case(
        name="symbols",
        text="""
extern "aten::nonzero(Tensor self) -> Tensor"

func @main(%x: f32[s0, s1]{s1, 1}, %p: f32[]) {
  define s0 = size(%x, 0)
  define s1 = stride(%x, 0) + offset(%x)
  define u1 = item(%p)
  %n = call aten::nonzero(%x) : i64[u0, 2]{1, u0}
  define u0 = size(%n, 0)
  assert u0 <= s0*s1 and u1 < 10.0 "count"
  free %n
  return s0, s1, u0, u1*2.0, where(s0 == 4, 1, 0), u0 > 3
}
""",
        inputs=lambda: [_example(4, 6), torch.tensor(2.5)],
        expected=lambda x, p: (4, 6, 24, 5.0, 1, True),
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
        inputs=lambda: [_example(9)[1:]],
        expected=lambda x: (x * 2,),
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
  launch @increment(%state, 4)
  copy %x, %state non_blocking
  free %d
  %r = alloc f32[4]
  copy %r, %state
  return %flat, %r
}
""",
        inputs=lambda: [_example(4), _example(4)],
        expected=lambda x, d: (torch.tensor([[1.0, 3.0], [2.0, 4.0]]), torch.ones(4)),
        after=lambda x, d: (torch.ones(4),),
        constants={"state": torch.zeros(4), "weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]])},
    ),
    Case(
        name="constants",
        text=KERNELS
        + """
const %a : f32[8] storage("w", 0)
const %b : f32[8] storage("w", 16)
const %none : f32[0, 4]
const %c : f32[4]

func @main(%x: f32[8]) {
  %r = alloc f32[8]
  launch @double(%a, %r, 8)
  launch @double(%b, %x, 8)
  %v = view %c : f32[2, 2]
  return %r, %v, %none, %c, %x
}
""",
        inputs=lambda: [_example(8)],
        expected=lambda x: (
            _packed()[:8] * 2,
            torch.ones(2, 2),
            torch.empty(0, 4),
            torch.ones(4),
            _packed()[4:12] * 2,
        ),
        after=lambda x: (_packed()[4:12] * 2,),
        constants={"w": _packed(), "none": torch.empty(0, 4), "c": torch.ones(4)},
    ),
    Case(
        name="names_of_c",
        text="""
const %gamma : f32[2]
const %NULL : f32[2]
const %y0 : f32[2]

func @main(%index: f32[2], %M_PI: f32[2], %time: f32[2]) {
  %log = alloc f32[2]
  copy %log, %gamma
  %EOF = alloc f32[2]
  copy %EOF, %NULL
  %exp = alloc f32[2]
  copy %exp, %y0
  copy %index, %M_PI
  copy %time, %exp
  return %log, %EOF, %exp, %index, %time
}
""",
        inputs=lambda: [torch.zeros(2), torch.ones(2), torch.zeros(2)],
        expected=lambda *_: tuple(torch.full((2,), float(n)) for n in (2, 3, 4, 1, 4)),
        constants={
            name: torch.full((2,), value) for name, value in (("gamma", 2.0), ("NULL", 3.0), ("y0", 4.0))
        },
    ),
    Case(
        name="odd_names",
        text=RELU
        + """
func @main(%"class": f32[4], %"t": f32[4], %"a.b": f32[4], %a_b: f32[4], %"2x": f32[4]) {
  %args = call aten::relu(%"class") : f32[4]
  %main = call aten::relu(%"t") : f32[4]
  %allocate = call aten::relu(%"a.b") : f32[4]
  %c = call aten::relu(%a_b) : f32[4]
  %inputs = call aten::relu(%"2x") : f32[4]
  return %args, %main, %allocate, %c, %inputs, %inputs
}
""",
        inputs=lambda: [_example(4) + i for i in range(5)],
        expected=lambda *xs: (*(torch.relu(x) for x in xs), torch.relu(xs[-1])),
    ),
)

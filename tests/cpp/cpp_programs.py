"""Programs that together contain every step: those of emitted Python with kernels in C++, and special cases
of C++.
"""

from __future__ import annotations

import dataclasses
import re

import torch
from packages.py_wrapper.tests import py_case
from packages.py_wrapper.tests.py_case import RELU, Case, example
from packages.py_wrapper.tests.py_programs import CASES as SHARED

from tests.cpp.cpp_case import KERNELS

_COUNTS = {"mlp": "s0*4", "mutation": "4"}
"""Number of elements for `increment`: its Python form sees the tensor."""


def _with_cpp_kernels(case: py_case.Case) -> Case:
    """Returns the case with kernels in C++, which receive the number of elements."""
    count = _COUNTS.get(case.name, "8")
    text = case.text.replace(py_case.KERNELS, KERNELS)
    text = re.sub(r"@increment\((%\w+)\)", rf"@increment(\1, {count})", text)
    return dataclasses.replace(case, text=text)


def _packed() -> torch.Tensor:
    return torch.arange(16, dtype=torch.float32)


def _kernel_with_a_macro(name: str, factor: int) -> str:
    """A kernel that shares no translation unit."""
    return f"""
kernel cpp @{name} entry "kernel" (readwrite f32* x) {{{{{{
#define FACTOR {factor}
extern "C" void kernel(float* x) {{ *x *= FACTOR; }}
}}}}}}
"""


_OWN: tuple[Case, ...] = (
    Case(
        name="kernels_in_units_of_their_own",
        text=_kernel_with_a_macro("twice", 2)
        + _kernel_with_a_macro("thrice", 3)
        + """
func @main(%x: f32[1]) {
  launch @twice(%x)
  launch @thrice(%x)
  return %x
}
""",
        inputs=lambda: [torch.ones(1)],
        expected=lambda x: (x * 6,),
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
        inputs=lambda: [example(2, 3), torch.tensor([5, 1])],
        expected=lambda x, i: (
            torch.cat([x, x], 1)[:, i],
            torch.cat([x, x], 1).sum(1, dtype=torch.float64),
            torch.cat([torch.cat([x, x], 1)[:, i].sum(0, keepdim=True), torch.zeros(1, 2)]),
            torch.ones(2, 2),
        ),
    ),
    Case(
        name="operators_by_other_calls",
        text="""
extern "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
extern "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
extern "aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"
extern "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"
extern "aten::div.Scalar(Tensor self, Scalar other) -> Tensor"
extern "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"
extern "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"
extern "aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"
extern "aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"
extern "prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor" tags(python_only)

func @main(%x: f32[2, 3], %i: i32[2, 3], %j: i32[], %b: bf16[3]) {
  %f = call aten::full([2], 7) : i64[2]
  %g = call aten::full([2], true, dtype=bool) : bool[2]
  %a = call aten::add.Tensor(%i, %j) : i32[2, 3]
  %o = alloc f32[2, 3]
  call aten::add.out(%x, %x, alpha=3, out=%o)
  %s = call aten::sub.Tensor(%x, %b, alpha=2) : f32[2, 3]
  %m = call aten::mul.Tensor(%i, 2) : i32[2, 3]
  %n = call aten::mul.Tensor(%j, 2.5) : f32[]
  %k = call aten::mul.Tensor(%b, 0.1) : bf16[3]
  %c = call aten::clamp(%i, min=1, max=2.5) : f32[2, 3]
  %p = call aten::pow.Tensor_Scalar(%j, 3) : i32[]
  %d = call aten::div.Scalar(%i, 2) : f32[2, 3]
  %z = call prims::convert_element_type(%x, c64) : c64[2, 3]
  %t = view %x : f32[3, 2]
  %w = alloc f32[2, 2]
  %h = call aten::addmm(%w, %x, %t, beta=0, alpha=2) : f32[2, 2]
  free %w.s
  %e = call aten::constant_pad_nd(%i, [1, 0], 5) : i32[2, 4]
  %vm = call aten::var_mean.correction(%x, [1], correction=0) : results
  %v = unpack %vm[0] : f32[2]
  drop %vm
  %q = call aten::std.correction(%x) : f32[]
  return %f, %g, %a, %o, %s, %m, %n, %k, %c, %p, %d, %z, %h, %e, %v, %q
}
""",
        inputs=lambda: [
            example(2, 3),
            torch.arange(6, dtype=torch.int32).view(2, 3),
            torch.tensor(3, dtype=torch.int32),
            example(3).bfloat16(),
        ],
        expected=lambda x, i, j, b: (
            torch.full((2,), 7),
            torch.full((2,), True),
            i + j,
            x + 3 * x,
            x - 2 * b,
            i * 2,
            j * 2.5,
            b * 0.1,
            torch.clamp(i, 1, 2.5),
            j**3,
            i / 2,
            x.to(torch.complex64),
            2 * x @ x.view(3, 2),
            torch.nn.functional.pad(i, (1, 0), value=5),
            torch.var(x, 1, correction=0),
            torch.std(x),
        ),
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
        inputs=lambda: [example(8)],
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
        name="names_of_the_runtime",
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
        inputs=lambda: [example(4) + i for i in range(5)],
        expected=lambda *xs: (*(torch.relu(x) for x in xs), torch.relu(xs[-1])),
    ),
)

CASES: tuple[Case, ...] = (*map(_with_cpp_kernels, SHARED), *_OWN)

"""Small programs that branch, loop and call."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from packages.py_wrapper.tests.py_case import ADD, KERNELS, RELU, Case, example
from torch import Tensor


def _switch_inputs(index: int) -> list[Any]:  # Any: tensors and a number
    return [torch.tensor([index]), index + 2, example(5, 4), example(8)]


def _loop_inputs(start: int) -> list[Tensor]:
    return [torch.tensor(start), example(4), example(4) + 1]


def _loop(trips: int, stacked: bool, i: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    pairs = [(i, x)]
    for _ in range(trips):
        pairs.append((pairs[-1][0] * 2, pairs[-1][1] + w))
    if not stacked:
        return pairs[-1]
    rows = pairs[1:] or pairs
    return torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows])


_OWNERS = """
func @take(%d: owned f32[8]) {
  %e = reuse %d : f32[8]
  launch @increment(%e)
  return %e
}

func @keep(%d: owned f32[8]) {
  %y = call aten::relu(%d) : f32[8]
  free %d
  return %y
}
"""
"""Functions that own their argument: one works in place, one allocates another tensor."""

CONTROL_CASES: tuple[Case, ...] = (
    Case(
        name="cond",
        text=RELU
        + KERNELS
        + """
func @main(%p: bool[], %x: f32[s0, 4], %d: owned f32[8]) {
  define s0 = size(%x, 0)
  %r = cond %p then @double_it else @relu_it (%x, s0) : f32[s0, 4]
  %q = cond s0 > 3 then @take else @keep (%d) : f32[8]
  %k = call_subgraph @double_it(%r, s0) : f32[s0, 4]
  return %r, %q, %k
}

func @double_it(%x: f32[s0, 4], %n: int) captures(s0) {
  %buf0 = alloc f32[s0, 4]
  launch @double(%x, %buf0, s0*4)
  return %buf0
}

func @relu_it(%x: f32[s0, 4], %n: int) captures(s0) {
  %y = call aten::relu(%x) : f32[s0, 4]
  return %y
}
"""
        + _OWNERS,
        inputs=lambda: [torch.tensor(True), example(5, 4), example(8)],
        expected=lambda p, x, d: (x * 2, d + 1, x * 4),
    ),
    Case(
        name="cond_false",
        text=RELU
        + """
func @main(%p: bool[], %x: f32[4]) {
  %r = cond %p then @same else @relu_it (%x) : f32[4]
  return %r
}

func @same(%x: f32[4]) {
  %y = alloc f32[4]
  copy %y, %x
  return %y
}

func @relu_it(%x: f32[4]) {
  %y = call aten::relu(%x) : f32[4]
  return %y
}
""",
        inputs=lambda: [torch.tensor(False), example(4)],
        expected=lambda p, x: (torch.relu(x),),
    ),
    *(
        Case(
            name=f"switch_{index}",
            text=RELU
            + KERNELS
            + """
func @main(%i: i64[1], %n: int, %x: f32[s0, 4], %d: owned f32[8]) {
  define s0 = size(%x, 0)
  define s1 = item(%n)
  %r = switch %i [@double_it, @relu_it, @through] (%x) : f32[s0, 4]
  %q = switch s1 - 2 [@take, @take, @keep] (%d) : f32[8]
  return %r, %q
}

func @double_it(%x: f32[s0, 4]) captures(s0) {
  %buf0 = alloc f32[s0, 4]
  launch @double(%x, %buf0, s0*4)
  return %buf0
}

func @relu_it(%x: f32[s0, 4]) captures(s0) {
  %y = call aten::relu(%x) : f32[s0, 4]
  return %y
}

func @through(%x: f32[s0, 4]) captures(s0) {
  %y = alloc f32[s0, 4]
  copy %y, %x
  return %y
}
"""
            + _OWNERS,
            inputs=partial(_switch_inputs, index),
            expected=lambda i, n, x, d: (
                (x * 2, torch.relu(x), x)[n - 2],
                torch.relu(d) if n == 4 else d + 1,
            ),
        )
        for index in range(3)
    ),
    *(
        Case(
            name=f"while_{trips}{'_stacked' if stacked else ''}",
            text=ADD
            + """
extern "aten::lt.Scalar(Tensor self, Scalar other) -> Tensor"

func @main(%i: i64[], %x: f32[4], %w: f32[4]) {
  %j, %y = while @test do @body carried(%i, %x) captured(%w)STACKED : i64LEAD[], f32LEAD[4]
DEFINE  return %j, %y
}

func @test(%i: i64[], %x: f32[4], %w: f32[4]) {
  %go = call aten::lt.Scalar(%i, 3) : bool[]
  return %go
}

func @body(%i: i64[], %x: f32[4], %w: f32[4]) {
  %one = alloc i64[]
  copy %one, %i
  %j = call aten::add.Tensor(%one, %one) : i64[]
  free %one.s
  %y = call aten::add.Tensor(%x, %w) : f32[4]
  return %j, %y
}
""".replace("STACKED", " stacked" if stacked else "")
            .replace("DEFINE", "  define u0 = size(%j, 0)\n" if stacked else "")
            .replace("i64LEAD[]", "i64[u0]" if stacked else "i64[]")
            .replace("f32LEAD[4]", "f32[u0, 4]" if stacked else "f32[4]"),
            inputs=partial(_loop_inputs, start),
            expected=partial(_loop, trips, stacked),
        )
        for trips, start in ((0, 5), (1, 2), (2, 1))
        for stacked in (False, True)
    ),
)

"""Tensors over lent memory are created once per tensor of the caller, and again if a symbol has another
value."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor

import py_wrapper
from wrapper_ir import parse_program, verify
from wrapper_ir.artifact import bare_artifact

PROGRAM = """wir 0.5
target cpu

symbol u0 : int unbacked [1, 8]

func @main(%x: f32[8], %y: f32[8], %n: i64[]) {
  %pool = alloc_storage 64 pool
  %a.s = slot %pool : 64
  call_subgraph @sized(%x, %y, %n, %a.s)
  free %a.s
  free %pool
  drop %x
  drop %y
  drop %n
  return
}

func @sized(%x: f32[8], %y: f32[8], %n: i64[], %room: storage(64)) {
  define u0 = item(%n)
  call_subgraph @step(%x, %y, %room)
  call_subgraph @step(%y, %y, %room)
  drop %x
  drop %y
  drop %n
  return
}

func @step(%x: f32[8], %y: f32[8], %room: storage(64)) captures(u0) {
  %c.s = slot %room : 32
  %c = view %c.s : f32[8]
  copy %c, %x
  %d.s = slot %room + 32 : 4*u0
  %d = view %d.s : f32[u0]
  %p = view %c : f32[u0]
  copy %d, %p
  %q = view %y : f32[u0]
  copy %q, %d
  free %d.s
  free %c.s
  drop %x
  drop %y
  drop %q
  return
}
"""


def expected(x: Tensor, y: Tensor, n: int) -> Tensor:
    return torch.cat((x[:n], y[n:]))


def test_windows_over_lent_memory_are_kept_with_it() -> None:
    program = parse_program(PROGRAM)
    verify(program)
    run = py_wrapper.compile(bare_artifact(program))
    for n in (3, 5, 5, 1):
        x, y = torch.randn(8), torch.randn(8)
        want = expected(x, y, n)
        run.boxed([x, y, torch.tensor(n)])
        assert torch.equal(y, want)
    scope = run.boxed.__globals__
    text = inspect.getsource(scope["step"])
    assert text.count("window(") == 2
    assert "kept[0] != (u0,)" in text
    assert "windows_of_step" not in inspect.getsource(scope["sized"])

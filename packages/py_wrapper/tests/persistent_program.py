"""A program whose memory persists from call to call."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

from wrapper_ir.plugins.protocols import CompiledProgram

PROGRAM = """wir 0.5
target cpu
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
extern "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
func @main(%x: f32[4, 4], %w: f32[4, 4]) {
  %a = alloc f32[4, 4]
  call aten::mm.out(%x, %w, out=%a)
  %at = view %a : f32[4, 4]{1, 4}
  %b = alloc f32[4, 4]
  call aten::mm.out(%at, %w, out=%b)
  free %a.s
  %c = alloc f32[4, 4]
  call aten::add.out(%b, %x, out=%c)
  %d = reuse %b : f32[2, 8]
  %cd = view %c : f32[2, 8]
  call aten::mul_.Tensor(%d, %cd)
  %counts.s = alloc_storage 16 workspace zero(call)
  %counts = view %counts.s : f32[4]
  %total = view %cd : f32[4]
  call aten::add_.Tensor(%counts, %total)
  %once.s = alloc_storage 16 workspace zero(once)
  %once = view %once.s : f32[4]
  %out = alloc f32[2, 8]
  call aten::add.out(%d, %cd, out=%out)
  %sums = alloc f32[4]
  call aten::add.out(%counts, %once, out=%sums)
  free %b.s
  free %c.s
  free %counts.s
  free %once.s
  return %out, %sums
}
"""


def expected(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    b = (x @ w).t() @ w
    c = b + x
    return (b * c + c).reshape(2, 8), c.reshape(-1)[:4]


def assert_right(run: CompiledProgram) -> tuple[Any, ...]:
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    got = run.boxed([x, w])
    torch.testing.assert_close(got, expected(x, w))
    return tuple(got)


def assert_threads_are_right(run: CompiledProgram) -> None:
    """Checks several concurrent threads, with many calls each."""
    errors: list[AssertionError] = []

    def many() -> None:
        try:
            for _ in range(200):
                assert_right(run)
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors

"""A program on several streams."""

from __future__ import annotations

STREAMS = """wir 0.5
target cuda:0 arch "sm_90"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
func @main(%x: f32[512, 512], %w: f32[512, 512]) {
  %begun = record_event @cuda:0
  wait_event %begun @cuda:0 stream(1)
  drop %begun
  %a.s = alloc_storage 1048576 stream(1)
  %a = view %a.s : f32[512, 512]
  call aten::mm.out(%x, %w, out=%a) stream(1)
  %done = record_event @cuda:0 stream(1)
  %ws = alloc_storage 1024 workspace zero(call)
  %counts = view %ws : f32[256]
  %b = alloc f32[512, 512]
  call aten::mm.out(%w, %x, out=%b)
  wait_event %done @cuda:0
  drop %done
  %sum = alloc f32[512, 512]
  call aten::add.out(%a, %b, out=%sum)
  %added = record_event @cuda:0
  wait_event %added @cuda:0 stream(1)
  drop %added
  free %a.s
  free %b.s
  %host = alloc f32[512, 512] @cpu
  copy %host, %sum non_blocking
  %copied = record_event @cuda:0
  sync_event %copied
  drop %copied
  return %sum, %host, %counts
}
"""

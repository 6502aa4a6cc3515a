"""Runs programs in IR text on a machine in plain Python."""

from __future__ import annotations

from typing import Any

from packages.wrapper_ir_runtime.tests.interp.interp_case import OPTIONS, artifact
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine

from wrapper_ir_tools.debugger.random_calls import Draw
from wrapper_ir_tools.debugger.subject import InputChoice, Subject


def subject(text: str, *args: Any, draws: list[Draw] | None = None) -> Subject:
    """Builds a subject from a program and its flat arguments."""
    return Subject(artifact(text), ListMachine(), InputChoice(values=args), OPTIONS, draws)


LOOP = """
func @main(%x: f32[2]) {
  %n = call list::neg(%x) : f32[2]
  %r = while @small do @step carried(%n) : f32[2]
  %y = call list::add(%r, %r) : f32[2]
  free %n
  free %r
  return %y
}
func @small(%a: f32[2]) {
  %first = view %a : f32[]
  %c = call list::less(%first, 8) : bool[]
  return %c
}
func @step(%a: f32[2]) {
  %b = call list::add(%a, %a) : f32[2]
  %l = call list::log(%b) : f32[2]
  %s = call list::add(%b, %l) : f32[2]
  free %b
  free %l
  return %s
}
"""

MEMORY = """
func @main(%x: f32[2]) {
  %pool = alloc_storage 128 pool
  %a.s = slot %pool : 8
  %a = view %a.s : f32[2]
  copy %a, %x
  %b = alloc f32[2]
  call list::add.out(%a, %x, out=%b)
  free %a.s
  %c = reuse %b : f32[2]
  launch @count_grid(%c) grid(3)
  %next = call list::add(%c, %state) : f32[2]
  copy %state, %next
  free %next
  %old = call list::neg(%state) : f32[2]
  %v = view %old + 4 : f32[1]
  free %pool
  return %c, %v, %old, %state
}
"""
BRANCH = """
func @main(%p: bool[], %x: f32[2]) {
  define s0 = size(%x, 0)
  %r = cond %p then @negate else @same (%x) : f32[s0]
  %t = call list::split(%r) : results
  %one = unpack %t[1] : f32[2]
  drop %t
  free %r
  return %one, s0
}
func @negate(%x: f32[2]) captures(s0) {
  %y = call list::neg(%x) : f32[2]
  return %y
}
func @same(%x: f32[2]) captures(s0) {
  %y = call list::add(%x, %x) : f32[2]
  return %y
}
"""

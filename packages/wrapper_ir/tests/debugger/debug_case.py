"""Programs in IR text, run under control on a machine in plain Python."""

from __future__ import annotations

from typing import Any

from packages.wrapper_ir.tests.interp.interp_case import OPTIONS, artifact
from packages.wrapper_ir.tests.interp.list_machine import ListMachine

from wrapper_ir.debugger.random_calls import Draw
from wrapper_ir.debugger.subject import InputChoice, Subject

__all__ = ["LOOP", "subject"]


def subject(text: str, *args: Any, draws: list[Draw] | None = None) -> Subject:
    """The program with these flat arguments."""
    return Subject(artifact(text), ListMachine(), InputChoice(given=args), OPTIONS, draws)


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

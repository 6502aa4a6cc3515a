"""Programs with operators of another library that resize what they write, or give it other memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from py_wrapper import TORCH_MACHINE
from wrapper_ir import parse_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact

NAMESPACE = "rebinding_operators"


def _set(x: Tensor) -> None:
    x.set_(torch.zeros(3))  # type: ignore[call-overload]  # torch's stubs want a storage


def _cut(x: Tensor) -> None:
    x.untyped_storage().resize_(16)


def _grow(x: Tensor) -> None:
    x.resize_(16)


def _turn(x: Tensor) -> None:
    x.as_strided_((4, 2), (1, 4))


def _double(x: Tensor) -> None:
    x.mul_(2)


OPERATORS: dict[str, Callable[[Tensor], None]] = {
    "set": _set, "cut": _cut, "grow": _grow, "turn": _turn, "double": _double,
}  # fmt: skip


def register() -> Any:  # Any: a library of torch's, whose operators end with it
    """Registers the operators of these programs."""
    made: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's own
    for name, function in OPERATORS.items():
        made.define(f"{name}(Tensor(a!) x) -> ()")
        made.impl(name, function, "CPU")
    made.define("both(Tensor(a!)[] xs, int n) -> ()")
    for name in OPERATORS:
        made.impl(name, lambda x: None, "Meta")
    made.impl("both", lambda xs, n: _cut(xs[1]), "CPU")
    return made


HEAD = f"""extern "{NAMESPACE}::NAME(Tensor(a!) x) -> ()"
extern "{NAMESPACE}::both(Tensor(a!)[] xs, int n) -> ()"
extern "aten::neg(Tensor self) -> Tensor"
"""
INPUT = """
func @main(%x: f32[4, 2]) {
  call NAME(%x)
  %y = call aten::neg(%x) : f32[4, 2]
  drop %x
  return %y
}
"""
ALLOCATED = """
func @main(%x: f32[4, 2]) {
  %s = alloc_storage 32
  %a = view %s : f32[4, 2]
  copy %a, %x
  call NAME(%a)
  %y = call aten::neg(%a) : f32[4, 2]
  free %s
  drop %x
  return %y
}
"""
POOL = """
func @main(%x: f32[4, 2]) {
  %pool = alloc_storage 96 pool
  %s = slot %pool : 32
  %a = view %s : f32[4, 2]
  copy %a, %x
  call NAME(%a)
  %t = slot %pool + 64 : 32
  %b = view %t : f32[4, 2]
  copy %b, %a
  free %s
  %y = call aten::neg(%b) : f32[4, 2]
  free %t
  free %pool
  drop %x
  return %y
}
"""
CALLEE = """
func @main(%x: f32[4, 2]) {
  %v = view %x : f32[2]
  call_subgraph @touch(%v)
  drop %v
  %y = call aten::neg(%x) : f32[4, 2]
  drop %x
  return %y
}

func @touch(%a: f32[2]) {
  call NAME(%a)
  return
}
"""
CONSTANT = """
mutable const %w : f32[4, 2]

func @main(%x: f32[4, 2]) {
  copy %w, %x
  call NAME(%w)
  %y = call aten::neg(%w) : f32[4, 2]
  drop %x
  return %y
}
"""
LIST = """
func @main(%x: f32[4, 2]) {
  %s = alloc_storage 32
  %a = view %s : f32[4, 2]
  copy %a, %x
  call both([%x, %a], 1)
  %y = call aten::neg(%a) : f32[4, 2]
  free %s
  drop %x
  return %y
}
"""
PROGRAMS = {"input": INPUT, "allocated": ALLOCATED, "pool": POOL}


def text_of(program: str, operator: str) -> str:
    """The program with one of `OPERATORS`."""
    text = program.replace("call both", f"call {NAMESPACE}::both").replace(
        "call NAME", f"call {NAMESPACE}::NAME"
    )
    return HEAD.replace("NAME(", f"{operator}(") + text.replace("::NAME", f"::{operator}")


def eight() -> Tensor:
    """The input of these programs."""
    return torch.arange(8.0).reshape(4, 2)


def constant_artifact(operator: str) -> Artifact:
    """The artifact of `CONSTANT`."""
    program = parse_program(f"wir 0.5\ntarget cpu\n\n{text_of(CONSTANT, operator)}")
    verify(program)
    return bare_artifact(program, {"w": TORCH_MACHINE.data(torch.zeros(4, 2))})

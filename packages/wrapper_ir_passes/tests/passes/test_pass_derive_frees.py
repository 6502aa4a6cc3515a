"""Lifetimes: text in, text out."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import check, parse_program, print_program
from wrapper_ir_passes.cleanup.derive_frees import derive_frees, strip_frees
from wrapper_ir_tools.testing import RandomOptions, random_program

HEAD = """wir 0.5
target cpu

extern "aten::relu(Tensor self) -> Tensor"
extern "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)" tags(may_alias)
extern "aten::topk(Tensor self, SymInt k) -> (Tensor values, Tensor indices)"
extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective)
extern "lib::look(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e) -> ()"
extern "lib::gather(Tensor[] x, str group_name) -> Tensor[]" tags(collective)
extern "lib::sums_(Tensor[](a!) x, str group_name) -> Tensor[](a!)" tags(collective)

kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{

}}}

"""

CASES = {
    "after the last use of any tensor of the storage": """func @main(%x: f32[8]) {
  %a = alloc f32[8]
  launch @k(%x, %a)
+ drop %x
  %v = view %a : f32[4]
  assert_finite %a
  assert_finite %v
+ free %a.s
  comment "later"
  return
}""",
    "workspaces last, the latest first": """func @main(%x: f32[8]) {
  %s = alloc f32[8] workspace zero(call)
  %a = alloc f32[8]
  %t = alloc f32[8] workspace zero(call)
  %u = alloc f32[8] workspace zero(call)
  launch @k(%x, %a)
  call lib::look(%u, %a, %t, %s, %x)
+ drop %x
+ free %a.s
+ free %u.s
+ free %t.s
+ free %s.s
  return
}""",
    "a result that is never used, at once": """func @main(%x: f32[8]) {
  %y = call aten::relu(%x) : f32[8]
+ drop %x
+ free %y
  comment "later"
  return
}""",
    "owned parameters too, constants never, returned storage neither": """func @main(%x: owned f32[8], %y: owned f32[8]) {
+ free %y
  %z = view %x : f32[2, 4]
  return %z
}""",
    "a reuse is not an end": """func @main(%x: f32[8]) {
  %a = alloc f32[8]
  launch @k(%x, %a)
+ drop %x
  %b = reuse %a : f32[8]
  assert_finite %b
+ free %a.s
  return
}""",
    "a move into a callee is": """func @main(%x: f32[8]) {
  %a = alloc f32[8]
  launch @k(%x, %a)
+ drop %x
  call_subgraph @take(%a)
  return
}

func @take(%p: owned f32[8]) {
+ free %p
  return
}""",
    "what may alias is dropped, and holds its storage until then": """func @main(%x: owned f32[8]) {
  %y = call aten::reshape(%x, [2, 4]) : f32[2, 4]
  assert_finite %x
  assert_finite %y
+ drop %y
+ free %x
  return
}""",
    "nothing is freed that a returned value may hold": """func @main(%x: owned f32[8]) {
  %y = call aten::reshape(%x, [2, 4]) : f32[2, 4]
  return %y
}""",
    "nested results are dropped, their elements freed": """func @main(%x: f32[8]) {
  %t = call aten::topk(%x, 2) : results
+ drop %x
  %v = unpack %t[0] : f32[2]
  %w = unpack %t[0] : f32[2]
+ drop %t
  assert_finite %v
  assert_finite %w
+ free %v
  return
}""",
    "a collective holds its arguments until it was waited for": """func @main(%x: owned f32[8]) {
  %h = collective _c10d_functional::all_reduce(%x, "sum", "0") group("0") : f32[8]
  comment "in flight"
  %y = wait %h : f32[8]
+ free %x
  return %y
}""",
    "of several results, each holds its own argument": """func @main(%x: owned f32[8], %z: owned f32[8]) {
  %g, %h = collective lib::gather([%x, %z], "0") group("0") : f32[8], f32[8]
  %a = wait %h : f32[8]
+ free %z
  assert_finite %a
+ free %h
  %b = wait %g : f32[8]
+ free %x
  return %b
}""",
    "in place, the argument is the result": """func @main(%x: owned f32[8], %z: f32[8]) {
  %g, %h = collective lib::sums_([%x, %z], "0") group("0") : f32[8], f32[8]
  %a = wait %h : f32[8]
+ drop %z
+ drop %h
+ drop %a
  %b = wait %g : f32[8]
  assert_finite %b
+ free %x
  return
}""",
    "a branch that returns its argument": """func @main(%p: bool[], %x: f32[8]) {
  %y = cond %p then @same else @same (%x) : f32[8]
+ drop %p
+ drop %x
  assert_finite %y
+ drop %y
  return
}

func @same(%x: f32[8]) {
  return %x
}""",
}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.replace(" ", "-").replace(",", ""))
def test_frees(case: str) -> None:
    expected = HEAD + CASES[case].replace("\n+ ", "\n  ") + "\n"
    bare = HEAD + "\n".join(line for line in CASES[case].split("\n") if not line.startswith("+ ")) + "\n"
    derived = derive_frees(parse_program(bare))
    assert print_program(derived) == expected
    assert check(derived) == ()
    assert derive_frees(derived) == derived
    assert print_program(strip_frees(derived)) == bare


STREAMS = """wir 0.5
target cuda:0 arch "sm_90"

extern "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)" tags(may_alias)

kernel foreign @k runtime "none" (read f32* src, write f32* dst) {{{

}}}

func @main(%x: f32[8]) {
  %a = alloc f32[8]
  %begun = record_event @cuda:0
  wait_event %begun @cuda:0 stream(1)
  drop %begun
  launch @k(%x, %a) stream(1)
  %done = record_event @cuda:0 stream(1)
  wait_event %done @cuda:0
  drop %done
  %b = alloc f32[8]
  %v = call aten::reshape(%a, [8]) : f32[8]
  launch @k(%v, %b)
  free %b.s
  comment "later"
LATER
}
"""
LATER = {
    "what several streams use": """  drop %x
  drop %v
  free %a.s
  return""",
    "a name over bytes that are reused": """  drop %v
  %c = reuse %a : f32[8]
  assert_finite %c
  drop %x
  free %a.s
  return""",
}


@pytest.mark.parametrize("case", LATER, ids=lambda c: c.replace(" ", "-"))
def test_streams(case: str) -> None:
    text = STREAMS.replace("LATER", LATER[case])
    program = parse_program(text)
    got = derive_frees(strip_frees(program))
    assert print_program(got) == print_program(program)
    assert check(got) == ()


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_are_valid_and_derived_once_is_derived_always(seed: int) -> None:
    program = random_program(random.Random(seed), 15, RandomOptions(executable=seed % 2 == 0))
    assert check(program) == ()
    assert derive_frees(program) == program

"""Renaming of process groups."""

from __future__ import annotations

from wrapper_ir import check, parse_program, print_program
from wrapper_ir.analysis.groups import groups_of
from wrapper_ir_passes.collectives.rename_groups import rename_groups

TEXT = """wir 0.5
target cpu

extern "lib::sum(Tensor x, str group_name) -> Tensor" tags(collective)
extern "lib::swap(Tensor x, *, str group_name) -> Tensor" tags(collective)
extern "lib::label(Tensor x, str group_name) -> Tensor"

func @main(%x: f32[8]) {
  %h = collective lib::sum(%x, "0") group("0") : f32[8]
  %y = wait %h : f32[8]
  %z = call lib::swap(%y, group_name="tp") : f32[8]
  free %h
  %a = call lib::label(%z, "0") : f32[8]
  free %z
  %b = call_subgraph @more(%a) : f32[8]
  free %a
  drop %x
  return %b
}

func @more(%x: f32[8]) {
  %h = collective lib::sum(%x, group_name="dp") group("dp") : f32[8]
  %y = wait %h : f32[8]
  drop %x
  return %y
}
"""


def test_groups_are_found_in_calls_and_callees() -> None:
    assert groups_of(parse_program(TEXT)) == ("0", "tp", "dp")


def test_names_are_exchanged_where_they_are_names_of_groups() -> None:
    program = parse_program(TEXT)
    assert check(program) == ()
    renamed = rename_groups(program, {"0": "tp", "tp": "0"})
    assert check(renamed) == ()
    assert groups_of(renamed) == ("tp", "0", "dp")
    want = (
        TEXT.replace('(%x, "0") group("0")', '(%x, "tp") group("tp")')
        .replace('group_name="tp"', 'group_name="0"')
    )  # fmt: skip
    assert print_program(renamed) == want
    assert rename_groups(renamed, {"0": "tp", "tp": "0"}) == program


SYMMETRIC = """wir 0.5
target cuda:0

func @main() {
  %s = alloc_storage 64 symmetric("0", 3)
  %t = alloc_storage 64 symmetric("dp", 3)
  call_subgraph @fill(%s)
  free %s
  free %t
  return
}

func @fill(%s: storage(64, symmetric("0", 3))) {
  %v = view %s : f32[16]
  copy %v, %v
  drop %v
  drop %s
  return
}
"""


def test_symmetric_memory_belongs_to_its_group() -> None:
    program = parse_program(SYMMETRIC)
    assert groups_of(program) == ("0", "dp")
    assert print_program(rename_groups(program, {"0": "tp"})) == SYMMETRIC.replace('"0"', '"tp"')

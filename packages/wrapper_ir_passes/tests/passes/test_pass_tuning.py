"""Programs reduced to launches with a choice, and choices written into programs: text in, text out."""

from __future__ import annotations

import dataclasses

from wrapper_ir import ir, parse_program, print_program, verify
from wrapper_ir_passes.tuning.apply_choices import with_choices
from wrapper_ir_passes.tuning.tuning_programs import tuning_programs

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 4096] hint 16
symbol u0 : int unbacked [0, 100]
symbol u1 : int unbacked

const %weight : f32[64]
const %table : i64[64]

kernel triton @add entry "add" (read f32* x, read i64* at, write f32* out, i32 n)
  order(x, at, out, n, B)
  configs({B = 64} warps(4) stages(1), {B = 32} warps(2) stages(1))
  grid(ceildiv(n, B))
  {{{

}}}

kernel triton @one entry "one" (read f32* x, write f32* out, i32 n)
  order(x, out, n, B)
  configs({B = 64} warps(4) stages(1))
  grid(ceildiv(n, B))
  {{{

}}}

kernel triton @split entry "split" (read f32* x, write f32* out, i32 n, readwrite u8* ws)
  order(x, out, n, ws, B)
  configs({B = 64} warps(4) stages(1))
  grid(rows) over(rows)
  {{{

}}}

kernel multi @either choose measure (read f32* x, write f32* out, i32 n, readwrite u8* ws) over(rows)
  variants(
    @one(0, 1, 2),
    @split(0, 1, 2, 3) grid(0),
  )

"""


def program(main: str) -> ir.Program:
    result = parse_program(HEAD + main)
    verify(result)
    return result


def reduced(main: str) -> list[str]:
    """The reduced programs' functions."""
    texts = []
    for one in tuning_programs(program(main)):
        verify(one.program)
        text = print_program(dataclasses.replace(one.program, kernels=()))
        assert "symbol" not in text
        texts.append(f"{one.count} x {text[text.index('func @main') :]}")
    return texts


def test_sizes_are_numbers_and_indices_zeros() -> None:
    main = """func @main(%x: f32[s0, 4], %at: i64[s0, 4]) {
  define s0 = size(%x, 0)
  %a = alloc f32[s0, 4]
  launch @add(%x, %at, %a, 4*s0)
  drop %at
  %b = alloc f32[s0, 4]
  launch @one(%a, %b, 4*s0)
  free %a.s
  drop %x
  return %b
}
"""
    assert reduced(main) == [
        """1 x func @main(%x: f32[16, 4], %out: f32[16, 4]) {
  %at = alloc i64[16, 4] zero(call)
  launch @add(%x, %at, %out, 64)
  drop %x
  drop %out
  free %at.s
  return
}
"""
    ]


def test_equal_launches_are_one_and_tables_of_indices_are_the_programs_own() -> None:
    main = """func @main(%x: f32[64]) {
  %a = alloc f32[64]
  launch @add(%x, %table, %a, 64)
  drop %x
  %b = alloc f32[64]
  launch @add(%a, %table, %b, 64)
  %c = view %weight : f32[64]
  %d = view %table + 256 : i64[32]
  launch @add(%c, %d, %a, 32) extents(128, 256, 128)
  free %a.s
  return %b
}
"""
    assert reduced(main) == [
        """2 x func @main(%x: f32[64], %out: f32[64]) {
  launch @add(%x, %table, %out, 64)
  drop %x
  drop %out
  return
}
""",
        """1 x func @main(%x: f32[64], %out: f32[64]) {
  %d = view %table + 256 : i64[32]
  launch @add(%x, %d, %out, 32) extents(128, 256, 128)
  drop %x
  drop %out
  return
}
""",
    ]


def test_launches_may_touch_more_than_a_layout_spans() -> None:
    main = """func @main(%x: f32[64]) {
  %p = view %x : f32[8]
  %a = alloc f32[64]
  launch @add(%p, %table, %a, 64) extents(256, 512, 256)
  drop %p
  drop %x
  return %a
}
"""
    [text] = reduced(main)
    assert "func @main(%x.whole: f32[64], %out: f32[64])" in text
    assert "%x = view %x.whole : f32[8]" in text


def test_scratch_memory_begins_as_in_the_program() -> None:
    main = """func @main(%x: f32[64]) {
  %s = alloc_storage 512 workspace zero(once)
  %ws = view %s + 256 : u8[256]
  %a = alloc f32[64]
  launch @either(%x, %a, 64, %ws) grid(3)
  drop %x
  free %s
  return %a
}
"""
    [text] = reduced(main)
    assert "%s = alloc_storage 512 workspace zero(once)\n  %ws = view %s + 256 : u8[256]" in text
    [one] = tuning_programs(program(main))
    assert {name: one.numbers(name) for name in ("either", "one", "split")} == {
        "either": (64, 3),
        "one": (64,),
        "split": (64, 3),
    }


UNKNOWN = """func @main(%x: f32[64]) {
  %p = view %x : f32[1]
  define u0 = item(%p)
  define u1 = 2*u0
  %a = alloc f32[64]
  launch @add(%x, %table, %a, u0 + u1)
  drop %p
  drop %x
  return %a
}
"""


def test_sizes_that_only_a_run_would_tell() -> None:
    whole = parse_program(HEAD + UNKNOWN)
    for launches, number in (
        (tuning_programs(whole), 300),
        (tuning_programs(whole, fallback=7), 21),
        (tuning_programs(whole, {"u0": 5}), 15),
    ):
        assert [one.numbers("add") for one in launches] == [(number,)]


def test_what_launches_rest_on() -> None:
    """They depend on the assumed symbol, not on one that follows from it.

    There is none if a value is given or hinted.
    """
    whole = parse_program(HEAD + UNKNOWN)
    for sizes, rest in (({}, {"u0"}), ({"u1": 3}, {"u0"}), ({"u0": 5}, set())):
        assert [one.assumed for one in tuning_programs(whole, sizes)] == [rest]
    only_u1 = parse_program(HEAD + UNKNOWN.replace("u0 + u1", "u1"))
    for sizes, rest in (({}, {"u0"}), ({"u1": 3}, set())):
        assert [one.assumed for one in tuning_programs(only_u1, sizes)] == [rest]


def test_loops_and_branches_are_searched_too() -> None:
    main = """func @main(%x: f32[64], %go: bool[]) {
  %y = cond %go then @then else @other (%x) : f32[64]
  drop %x
  drop %go
  return %y
}

func @then(%x: f32[64]) {
  %a = alloc f32[64]
  launch @add(%x, %table, %a, 64)
  drop %x
  return %a
}

func @other(%x: f32[64]) {
  %a = alloc f32[64]
  launch @add(%x, %table, %a, 63)
  drop %x
  return %a
}
"""
    whole = parse_program(HEAD + main)
    assert [one.numbers("add") for one in tuning_programs(whole)] == [(64,), (63,)]


CHOICES = """func @main(%x: f32[64]) {
  %ws = alloc_storage 256 workspace zero(call)
  %w = view %ws : u8[256]
  %a = alloc f32[64]
  launch @add(%x, %table, %a, 64)
  drop %x
  %b = alloc f32[64]
  launch @either(%a, %b, 64, %w) grid(3) extents(256, 256, 256)
  free %a.s
  free %ws
  return %b
}
"""


def test_choices_leave_nothing_to_choose() -> None:
    whole = program(CHOICES)
    add = whole.kernel("add")
    assert isinstance(add, ir.TritonKernel)
    fixed_program = with_choices(whole, {"add": add.configs[1]}, {"either": 0})
    verify(fixed_program)
    assert [k.name for k in fixed_program.kernels] == ["add", "one"]
    assert fixed_program.kernel("add") == dataclasses.replace(add, configs=add.configs[1:])
    text = print_program(dataclasses.replace(fixed_program, kernels=()))
    assert "launch @one(%a, %b, 64) extents(256, 256)\n" in text
    assert "%ws" not in text  # only the other kernel needed it
    other = with_choices(whole, {}, {"either": 1})
    verify(other)
    assert [k.name for k in other.kernels] == ["add", "split"]
    assert "launch @split(%a, %b, 64, %w) grid(3) extents(256, 256, 256)\n" in print_program(other)
    assert not tuning_programs(fixed_program)


def test_without_choices_nothing_changes() -> None:
    whole = program(CHOICES)
    assert with_choices(whole, {}, {}) == whole

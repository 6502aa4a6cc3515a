"""Open bounds become assertions where their symbols are defined; proved ones become nothing."""

from __future__ import annotations

import pytest

from wrapper_ir import check, ir, parse_program, print_program, verify
from wrapper_ir.verifier.insert_checks import insert_checks, missing_checks
from wrapper_ir_passes import run_pipeline

_HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64]
symbol s1 : int backed
symbol u0 : int unbacked [0, 16]
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}
kernel cpp @p entry "p" (read f32* src may_alias(dst), write f32* dst) {{{
}}}

func @main(%x: f32[s0, 8], %y: f32[s1, 8], %n: i64[]) {
"""
_DEFINED = "  define s0 = size(%x, 0)\n  define s1 = size(%y, 0)\n"
_RANGE = 'assert s0 >= 2 "s0, size(%x, 0), is outside of its declared range [2, 64]"'

# The ops between the definitions and the return, and the assertions that they require.
CASES = {
    "all_of_it": ("  %v = view %x : f32[8 * s0]", []),
    "fewer_rows": ("  %v = view %x : f32[s0 - 1, 8]", [_RANGE]),
    "of_another_symbol": (
        "  %v = view %x : f32[s1, 8]",
        ['assert s1 == 0 or s1 <= s0 "%v covers 32*s1 bytes from 0; %x has 32*s0 (WIR050)"'],
    ),
    "twice": (
        "  %v = view %x : f32[s1, 8]\n  %w = view %x : f32[s1, 4]{8, 1}",
        ['assert s1 == 0 or s1 <= s0 "%v covers 32*s1 bytes from 0; %x has 32*s0 (WIR050)"'],
    ),
    "a_number": (
        "  %v = view %x + 96 : f32[8]",
        ['assert 4 <= s0 "%v covers 32 bytes from 96; %x has 32*s0 (WIR050)"'],
    ),
    "inside_the_range": ("  %v = view %x + 32 : f32[8]", [_RANGE]),
    "difference": (
        "  %a = alloc f32[s0 - s1, 8]\n  %b = alloc f32[s0 - s1, 8]\n  %v = view %x : f32[s0 - s1, 8]\n  "
        "launch @k(%v, %a) extents(32*(s0 - s1), 32*(s0 - s1))\n  free %b.s\n  free %a.s",
        ['assert 0 <= s0 - s1 "%a: a size, s0 - s1, is negative (WIR041)"'],
    ),
    "rows_of_a_difference": (
        "  %a = alloc f32[s0 - s1, 2, 8]\n  %b = view %a + 32 : f32[s0 - s1, 8]{16, 1}\n  free %a.s",
        ['assert 0 <= s0 - s1 "%a: a size, s0 - s1, is negative (WIR041)"'],
    ),
    "asserted_before": ('  assert s1 < s0 "a"\n  %v = view %x : f32[s1, 8]', ['assert s1 < s0 "a"']),
    "asserted_after": (
        '  %v = view %x : f32[s1, 8]\n  assert s1 < s0 "a"',
        [
            'assert s1 == 0 or s1 <= s0 "%v covers 32*s1 bytes from 0; %x has 32*s0 (WIR050)"',
            'assert s1 < s0 "a"',
        ],
    ),
    "offset": (
        "  %v = view %x + s1 : f32[1]",
        [
            'assert s1 + 4 <= 32*s0 "%v covers 4 bytes from s1; %x has 32*s0 (WIR050)"',
            'assert s1 % 4 == 0 "%v starts at byte s1, items have 4 (WIR051)"',
        ],
    ),
    "item": (
        "  define u0 = item(%n)\n  %v = view %x : f32[u0, 8]",
        [
            'assert u0 >= 0 "u0, item(%n), is outside of its declared range [0, 16]"',
            'assert u0 == 0 or u0 <= s0 "%v covers 32*u0 bytes from 0; %x has 32*s0 (WIR050)"',
        ],
    ),
    "copy": ("  copy %x, %y", ['assert s1 == s0 or s1 == 1 "%y cannot be broadcast to %x (WIR054)"']),
    "matmul": (
        "  %m = view %y : f32[8, s1]\n  %a = alloc f32[s0, s0]\n  call aten::mm.out(%x, %m, out=%a)\n  "
        "free %a.s",
        ['assert s1 == s0 "aten::mm.out: the sizes of its arguments do not fit (WIR058)"'],
    ),
    "extent": (
        "  %a = alloc f32[s0, 8]\n  launch @k(%x, %a) extents(16*s1, 32*s0)\n  free %a.s",
        [
            "assert s1 <= 0 or s1 <= 2*s0 "
            '"@k may touch 16*s1 bytes of %x, which starts at 0 of 32*s0 (WIR089)"'
        ],
    ),
    "windows": (
        "  %a = view %x : f32[8]\n  %b = view %x + 4*s1 : f32[8]\n  launch @k(%a, %b)",
        [
            _RANGE,
            'assert s1 + 8 <= 8*s0 "%b covers 32 bytes from 4*s1; %x has 32*s0 (WIR050)"',
            'assert 8 <= s1 or s1 + 8 <= 0 "src (%a) and dst (%b) share bytes (WIR087)"',
        ],
    ),
    "in place": (
        "  %a = view %x : f32[8]\n  %b = view %x + 4*s1 : f32[8]\n  launch @p(%a, %b)",
        [
            _RANGE,
            'assert s1 + 8 <= 8*s0 "%b covers 32 bytes from 4*s1; %x has 32*s0 (WIR050)"',
            'assert 8 <= s1 or s1 + 8 <= 0 or s1 <= 0 "src (%a) and dst (%b) share bytes, but do not start at '
            'the same one (WIR210)"',
        ],
    ),
}


def _program(lines: str) -> ir.Program:
    return parse_program(f"{_HEAD}{_DEFINED}{lines}\n  drop %x\n  drop %y\n  drop %n\n  return\n}}\n")


def _assertions(program: ir.Program) -> list[str]:
    lines = (line.strip() for line in print_program(program).splitlines())
    return [line for line in lines if line.startswith("assert ")]


@pytest.mark.parametrize("name", CASES)
def test_open_bounds(name: str) -> None:
    lines, expected = CASES[name]
    program = _program(lines)
    assert check(program) == ()
    checked = insert_checks(program)
    assert _assertions(checked) == expected
    assert check(checked) == ()
    assert insert_checks(checked) is checked, "what is checked is known"
    assert len(_assertions(checked)) == len(_assertions(program)) + len(missing_checks(program))


def test_checks_stand_behind_the_last_definition_and_its_own_checks() -> None:
    lines = '  assert s1 >= 1 "first"\n  %a = view %y : f32[8]\n  %v = view %x : f32[s1, 8]'
    checked = insert_checks(_program(lines))
    names = [type(op).__name__ for op in checked.main.body[:5]]
    assert names == ["Define", "Define", "AssertExpr", "AssertExpr", "View"]


def test_what_the_caller_guards_is_not_checked() -> None:
    program = _program(CASES["fewer_rows"][0])
    assert insert_checks(program, ir.Guarded(symbols=frozenset({"s0"}))) is program


def test_guards_say_nothing_about_relations() -> None:
    program = _program(CASES["of_another_symbol"][0])
    assert len(missing_checks(program, ir.Guarded.all_inputs(program))) == 1


def test_runs_as_a_pass() -> None:
    lines, expected = CASES["of_another_symbol"]
    assert _assertions(run_pipeline(_program(lines), "insert-checks")) == expected


_CALLEE = """wir 0.5
target cpu

symbol s0 : int backed [4, 64]
symbol s1 : int backed

func @main(%x: f32[s0, 8], %p: bool[]) {
  define s0 = size(%x, 0)
  conditional
  return
}

func @a(%t: f32[s1, 8]) captures(s0) {
  define s1 = size(%t, 0)
  %u = view %t + 96 : f32[8]
  %v = view %t : f32[s0, 8]
  return
}

func @b(%t: f32[s0, 8]) captures(s0) {
  %u = view %t + 96 : f32[8]
  drop %t
  return
}
"""


def test_callees() -> None:
    """A callee checks its own definitions; a captured symbol's range is checked at the caller's
    definition."""
    call = "call_subgraph @a(%x)\n  call_subgraph @b(%x)"
    program = parse_program(_CALLEE.replace("conditional", call))
    assert check(program) == ()
    checked = insert_checks(program)
    assert _assertions(checked) == [
        'assert s0 >= 4 "s0, size(%x, 0), is outside of its declared range [4, 64]"',
        'assert 4 <= s1 "%u covers 32 bytes from 96; %t has 32*s1 (WIR050)"',
        'assert s0 <= s1 "%v covers 32*s0 bytes from 0; %t has 32*s1 (WIR050)"',
    ]


_ENDED = """wir 0.5
target cpu

symbol u0 : int unbacked [0, 64]
extern "aten::relu(Tensor self) -> Tensor"
kernel cpp @w entry "w" (write f32* x divisible(16)) {{{
}}}

func @main(%x: owned f32[4], %t: f32[4]) {
  set_storage %t, %t2
  %y = reuse %x : f32[4]
  launch @w(%y)
  drop %t2
  drop %t
  return %y
}
"""


def test_what_has_ended_is_not_looked_at() -> None:
    """A check of an address is at a launch if storages may move: it checks the launch's arguments."""
    text = _ENDED.replace(
        "  set_storage %t, %t2\n", "  %t2 = call aten::relu(%t) : f32[4]\n  set_storage %t, %t2\n"
    )
    program = parse_program(text)
    assert check(program) == ()
    checked = insert_checks(program)
    assert check(checked) == ()
    assert "assert_layout %y align(16)" in print_program(checked)


def test_a_parameter_that_ends_before_its_size_is_defined() -> None:
    program = parse_program("""wir 0.5
target cpu

symbol u0 : int unbacked [0, 64]

func @main(%x: f32[4], %k: i64[]) {
  call_subgraph @f(%x, %k)
  drop %x
  return
}

func @f(%a: f32[u0], %k: i64[]) {
  drop %a
  define u0 = item(%k)
  assert u0 < 3 "few"
  return
}
""")
    assert check(program) == ()
    assert check(insert_checks(program)) == ()


def test_nothing_is_read_of_a_tensor_that_is_empty_within_its_ranges() -> None:
    text = """wir 0.5
target cpu

symbol s0 : int backed [8, 9]
extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %b = alloc f32[s0//2 - 4, 2]
  %n = call aten::neg(%b) : f32[s0//2 - 4, 2]
  free %b.s
  return %n
}
"""
    program = parse_program(text)
    assert check(program) == ()
    [only] = missing_checks(program)
    assert str(only.message).startswith("s0, size(%x, 0), is outside of its declared range")
    [finding] = check(parse_program(text.replace("[8, 9]", "[10, 12]")))  # it has 1 or 2 rows
    assert finding.code == "WIR080"


def test_that_a_tensor_is_empty_that_nothing_has_written_is_checked_where_a_run_tells() -> None:
    """A compiler that relies on a guard of its caller omits the kernel that would write it."""
    text = """wir 0.5
target cpu

symbol s0 : int backed [0, *]
extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %b = alloc f32[s0//2, 2]
  %n = call aten::neg(%b) : f32[s0//2, 2]
  free %b.s
  return %n
}
"""
    program = parse_program(text)
    verify(program)
    assert 'assert s0//2 <= 0 "%b is read, but nothing has written it (WIR080)"' in print_program(
        insert_checks(program)
    )


def test_a_view_that_may_be_empty_excuses_no_other_read_of_its_storage() -> None:
    program = parse_program("""wir 0.5
target cpu

symbol s0 : int backed [0, *]
extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %b = alloc f32[8]
  %v = view %b : f32[s0]
  %n = call aten::neg(%v) : f32[s0]
  %m = call aten::neg(%b) : f32[8]
  free %b.s
  return %n, %m
}
""")
    assert [(finding.code, finding.op_index) for finding in check(program)] == [
        ("WIR080", 5)
    ]  # `alloc` is two ops


def test_what_one_fact_proves_is_found_among_many() -> None:
    """Two facts of many terms come first; a search in depth would spend its steps on them."""
    program = parse_program("""wir 0.5
target cpu

symbol s0 : int backed [2, *] hint 4
symbol s1 : int backed [2, *] hint 3
symbol u0 : int unbacked

func @main(%x: f32[s0, s1], %n: i64[]) {
  define s0 = size(%x, 0)
  define s1 = size(%x, 1)
  assert (s1 - 1)*(s1 + 1) + s1 + 1 <= s0*s1
  assert (min(s1, s0 - 1) - 1)*(s1 + 1) + s1 + 1 <= s0*s1
  define u0 = item(%n)
  assert u0 >= 0
  assert u0 <= s0
  %v = view %x : f32[u0, s1]
  drop %n
  drop %x
  return %v
}
""")
    verify(program)
    assert missing_checks(program) == ()

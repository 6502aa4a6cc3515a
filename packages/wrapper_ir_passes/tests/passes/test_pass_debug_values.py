"""Ops that `debug-values` inserts: text in, text out."""

from __future__ import annotations

import warnings

import pytest

from wrapper_ir import check, parse_program, print_program
from wrapper_ir.errors import DebugWarning, PassError
from wrapper_ir_passes import parse_pipeline, print_pipeline, run_pipeline
from wrapper_ir_passes.debug.debug_values import DebugLevel, DebugValues

HEAD = """wir 0.5
target TARGET

symbol s0 : int backed [2, 64]

extern "aten::topk(Tensor self, int k) -> (Tensor, Tensor)"
extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor"

kernel cpp @k entry "k" (read f32* src, write f32* dst, i64 n) {{{

}}}

kernel cpp @part entry "part" (read f32* src, readwrite f32* dst) {{{

}}}

"""
CUDA = 'cuda:0 arch "sm_90"'


def run(spec: str, function: str, target: str = "cpu") -> str:
    """Returns the functions of the program after the pass, which is verified."""
    program = run_pipeline(parse_program(HEAD.replace("TARGET", target) + function), spec)
    assert check(program) == ()
    text = print_program(program)
    return text[text.index("func @main") :]


LAUNCHES = """func @main(%x: f32[s0], %n: int) {
  define s0 = size(%x, 0)
  %a = alloc f32[s0]
  launch @k(%x, %a, s0)
  launch @part(%x, %a)
  launch @k(%x, %a, 7)
  return %a
}
"""


def test_memory_that_nothing_wrote_is_not_shown() -> None:
    """Nor are numbers that the program has as constants."""
    assert (
        run("debug-values", LAUNCHES)
        == """func @main(%x: f32[s0], %n: int) {
  debug print inputs %x, %n
  define s0 = size(%x, 0)
  %a = alloc f32[s0]
  debug print before launch "k" %x numbers(s0)
  launch @k(%x, %a, s0)
  debug print after launch "k" %a
  debug print before launch "part" %x, %a
  launch @part(%x, %a)
  debug print after launch "part" %a
  debug print before launch "k" %x
  launch @k(%x, %a, 7)
  debug print after launch "k" %a
  debug print outputs %a
  return %a
}
"""
    )


def test_a_second_level_replaces_the_first() -> None:
    names = run("debug-values{level=3,filter=K}", LAUNCHES)
    assert run("debug-values,debug-values{level=names,filter=K}", LAUNCHES) == names
    assert names.count("debug ") == names.count('debug names before launch "k"') * 2 == 4
    assert run("debug-values{level=names,filter=K},debug-values{level=off}", LAUNCHES) == names
    assert run("debug-values,strip-debug", LAUNCHES) == LAUNCHES


def test_results_are_shown_where_they_are_there() -> None:
    """Nested results after they are unpacked, results of collectives after the wait."""
    text = """func @main(%x: f32[8]) {
  %t = call aten::topk(%x, 5) : results
  %v = unpack %t[0] : f32[5]
  %i = unpack %t[1] : i64[5]
  drop %t
  %h = collective _c10d_functional::all_reduce(%v, "sum", "0") group("0") : f32[5]
  %w = wait %h : f32[5]
  free %v
  return %w, %i
}
"""
    lines = run("debug-values{inputs=false,outputs=false}", text).splitlines()
    debug_lines = [(at, line.strip()) for at, line in enumerate(lines) if "debug " in line]
    assert [line for _, line in debug_lines] == [
        'debug print before launch "aten::topk" %x',
        'debug print after launch "aten::topk" %v, %i',
        'debug print before launch "_c10d_functional::all_reduce" %v',
        'debug print after launch "_c10d_functional::all_reduce" %w',
    ]
    assert lines[debug_lines[1][0] - 1].strip().startswith("%i = unpack")
    assert lines[debug_lines[3][0] - 1].strip().startswith("%w = wait")
    assert "debug" not in run("debug-values{operators=false,inputs=false,outputs=false}", text)


def test_other_streams_are_waited_for() -> None:
    text = """func @main(%x: f32[8]) {
  %a = alloc f32[8]
  %e0 = record_event
  wait_event %e0 stream(1)
  call aten::copy_(%a, %x) stream(1)
  %e1 = record_event stream(1)
  wait_event %e1
  drop %e0
  drop %e1
  return %a
}
"""
    head = HEAD.replace(
        "extern",
        'extern "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"\nextern',
        1,
    )
    head = head[: head.index("kernel cpp")].replace("TARGET", CUDA)
    program = run_pipeline(parse_program(head + text), "debug-values{inputs=false,outputs=false}")
    assert check(program) == ()
    printed = print_program(program)
    before = printed[printed.index("  %debug_event_0_before") : printed.index("  call aten::copy_")]
    assert (
        before
        == """  %debug_event_0_before = record_event stream(1)
  sync_event %debug_event_0_before
  drop %debug_event_0_before
  debug print before launch "aten::copy_" %x
"""
    )
    assert 'debug print after launch "aten::copy_" %a' in printed


def test_a_captured_function_says_so() -> None:
    text = (
        HEAD[: HEAD.index("kernel cpp")].replace("TARGET", CUDA)
        + """func @main(%x: f32[8]) {
  %y = call_subgraph @step(%x) : f32[8]
  return %y
}

func @step(%x: f32[8]) replayable {
  %y = alloc f32[8]
  copy %y, %x
  return %y
}
"""
    )
    with pytest.warns(DebugWarning, match=r"\[WIR807\] @step: captured by a device"):
        program = run_pipeline(parse_program(text), "debug-values")
    assert print_program(program).count("debug ") == 2


def test_names_that_nothing_has_are_warned_of() -> None:
    with pytest.warns(
        DebugWarning, match=r"\[WIR806\] no kernel or operator is called 'parts'; close to it: part"
    ):
        run('debug-values{filter="parts, K"}', LAUNCHES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run('debug-values{filter="?,*PART "}', LAUNCHES)


def test_options_in_text() -> None:
    (step,) = parse_pipeline('debug-values{level=1,filter="a,b*",directory=out,inputs=false}')
    assert step == DebugValues(level=DebugLevel.SAVE, filter="a,b*", directory="out", inputs=False)
    assert print_pipeline((step,)) == 'debug-values{level=save,filter="a,b*",inputs=false,directory=out}'
    assert parse_pipeline(print_pipeline((step, step))) == (step, step)
    with pytest.raises(PassError, match=r"WIR803.*bad value '4'"):
        parse_pipeline("debug-values{level=4}")

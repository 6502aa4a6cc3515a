"""Passes that remove and add ops: text in, text out."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import check, parse_program, print_program
from wrapper_ir.errors import PassError, VerificationError
from wrapper_ir_passes import PASSES, describe_passes, parse_pipeline, print_pipeline, run_pipeline
from wrapper_ir_passes.translation import compare
from wrapper_ir_tools.testing import RandomOptions, random_program

HEAD = """wir 0.5
target cpu

"""
MAIN = """symbol s0 : int backed [2, 64]

const %w : f32[8]
mutable const %state : f32[8]

extern "aten::relu(Tensor self) -> Tensor"
extern "aten::rand_like(Tensor self) -> Tensor"  tags(random)

kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{

}}}

kernel cpp @n entry "n" (read i64* src, read f32* w, readwrite f32* dst) {{{

}}}

"""


def _body(text: str) -> str:
    return text[text.index("func @main") :]


def _run(spec: str, function: str) -> str:
    return _body(print_program(run_pipeline(parse_program(HEAD + MAIN + function), spec)))


def test_dead_ops_go_and_their_lifetimes_with_them() -> None:
    before = """func @main(%x: f32[8]) {
  %a = alloc f32[8]
  %b = alloc f32[8]
  launch @k(%x, %a)
  launch @k(%a, %b)
  free %a.s
  free %b.s
  %y = call aten::relu(%x) : f32[8]
  %z = call aten::relu(%x) : f32[8]
  free %z
  return %y
}
"""
    assert (
        _run("eliminate-dead-ops", before)
        == """func @main(%x: f32[8]) {
  %y = call aten::relu(%x) : f32[8]
  drop %x
  return %y
}
"""
    )


def test_writes_to_arguments_and_state_and_random_draws_stay() -> None:
    before = """func @main(%x: f32[8], %y: f32[8]) {
  launch @k(%x, %y)
  drop %y
  launch @k(%x, %state)
  %r = call aten::rand_like(%x) : f32[8]
  drop %x
  free %r
  return
}
"""
    assert _run("eliminate-dead-ops", before) == before


def test_a_define_lives_with_the_value_whose_type_it_binds() -> None:
    program = parse_program(
        HEAD
        + """symbol u0 : int unbacked [0, 8]
symbol s0 : int backed [2, 64]
extern "aten::nonzero(Tensor self) -> Tensor"
func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %y = call aten::nonzero(%x) : i64[u0, 1]
  define u0 = size(%y, 0)
  return %y
}
"""
    )
    text = _body(print_program(run_pipeline(program, "derive-frees,eliminate-dead-ops")))
    assert "define u0" in text
    assert "define s0" not in text


def test_unused_definitions_go_unless_they_are_kept() -> None:
    program = parse_program(HEAD + MAIN + "func @main() {\n  return\n}\n")
    assert run_pipeline(program, "eliminate-dead-ops").kernels == ()
    assert len(run_pipeline(program, "eliminate-dead-ops{definitions=false}").kernels) == 2


def test_each_content_that_a_launch_reads_is_checked_once() -> None:
    before = """func @main(%x: f32[8], %i: i64[8]) {
  %a = alloc f32[8]
  launch @k(%x, %a)
  launch @n(%i, %x, %a)
  launch @n(%i, %x, %a)
  return %a
}
"""
    checked = """func @main(%x: f32[8], %i: i64[8]) {
  %a = alloc f32[8]
  assert_finite %x "src of @k"
  launch @k(%x, %a)
  assert_finite %a "dst of @n"
  launch @n(%i, %x, %a)
  assert_finite %a "dst of @n"
  launch @n(%i, %x, %a)
  return %a
}
"""
    assert _run("insert-finite-checks", before) == checked
    outputs = _run("insert-finite-checks{outputs=true}", before)
    assert outputs.count("assert_finite") == 4
    assert outputs.splitlines()[-3].strip() == 'assert_finite %a "dst of @n"'
    assert _run("insert-finite-checks,strip-asserts", before) == before


def test_strip_debug() -> None:
    before = 'func @main(%x: f32[8]) {\n  comment "a"\n  debug print %x\n  return %x\n}\n'
    assert _run("strip-debug", before) == "func @main(%x: f32[8]) {\n  return %x\n}\n"
    assert "comment" in _run("strip-debug{comments=false}", before)


def test_pipelines_print_and_parse() -> None:
    text = "derive-frees,insert-finite-checks{outputs=true},strip-asserts{layouts=false,conditions=true}"
    assert print_pipeline(parse_pipeline(text)) == text
    assert (
        print_pipeline(parse_pipeline(" strip-debug { comments = true } , derive-frees "))
        == "strip-debug,derive-frees"
    )
    assert [line.split("{")[0] for line in describe_passes().splitlines()[::2]] == list(PASSES)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("derive-frees{", "WIR801"),
        ("derive-frees derive-frees", "WIR801"),
        ("no-such-pass", "WIR802"),
        ("strip-debug{no=1}", "WIR803"),
        ("strip-debug{comments=1}", "WIR803"),
        ("strip-debug{comments}", "WIR803"),
    ],
)
def test_bad_pipelines(text: str, code: str) -> None:
    with pytest.raises(PassError) as caught:
        parse_pipeline(text)
    assert caught.value.code == code


def test_invalid_input_is_refused_before_the_first_pass() -> None:
    program = parse_program(HEAD + "func @main(%x: owned f32[8]) {\n  return\n}\n")
    with pytest.raises(VerificationError):
        run_pipeline(program, "strip-debug")
    assert check(run_pipeline(program, "derive-frees", verify=False)) == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("spec", sorted(PASSES.keys() - {"move-device"}))
def test_passes_keep_what_random_programs_do(seed: int, spec: str) -> None:
    program = random_program(random.Random(seed), 12, RandomOptions(executable=seed % 2 == 0))
    (step,) = parse_pipeline(spec)
    result = run_pipeline(program, (step,))
    assert compare(*step.comparable(program, result)) is None

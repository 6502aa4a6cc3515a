"""Every rule has a program that breaks it: a text file where text can say it, else built by hand.

The first line of a file names the code that the verifier must report first.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from wrapper_ir import check, ir, parse_program, verify
from wrapper_ir.errors import ParseError, VerificationError
from wrapper_ir.expr import Sym
from wrapper_ir.verifier import RULES

FOLDER = Path(__file__).parent / "invalid"
FILES = sorted(FOLDER.glob("*.wir"))
_CODE = re.compile(r"# (WIR\d{3})")

VALID = """wir 0.5
target cpu

symbol s0 : int backed [2, 8]
const %w : f32[8]
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}

func @main(%x: f32[8]) {
  %a = alloc f32[8]
  launch @k(%x, %a)
  %b = ensure_aligned %a, 16
  drop %b
  return %a
}
"""


def _code(path: Path) -> str:
    match = _CODE.match(path.read_text(encoding="utf-8"))
    assert match is not None, f"{path.name} must start with its code"
    return match[1]


def _with_op(program: ir.Program, position: int, op: ir.Op) -> ir.Program:
    main = program.main
    body = (*main.body[:position], op, *main.body[position + 1 :])
    return dataclasses.replace(program, functions=(dataclasses.replace(main, body=body),))


def _undefined(p: ir.Program) -> ir.Program:
    launch = p.main.body[2]
    assert isinstance(launch, ir.Launch)
    ghost = ir.Value("ghost", p.main.params[0].value.type)
    return _with_op(p, 2, dataclasses.replace(launch, args=(ghost, launch.args[1])))


def _defined_twice(p: ir.Program) -> ir.Program:
    return _with_op(p, 2, p.main.body[1])


def _another_type(p: ir.Program) -> ir.Program:
    launch, x = p.main.body[2], p.main.params[0].value
    assert isinstance(launch, ir.Launch)
    assert isinstance(x.type, ir.TensorType)
    changed = ir.Value("x", dataclasses.replace(x.type, dtype=ir.DType.I32))
    return _with_op(p, 2, dataclasses.replace(launch, args=(changed, launch.args[1])))


def _undeclared(p: ir.Program) -> ir.Program:
    x = p.main.params[0].value
    assert isinstance(x.type, ir.TensorType)
    param = ir.Param(value=ir.Value("x", dataclasses.replace(x.type, sizes=(Sym("s9"),))))
    return dataclasses.replace(p, functions=(dataclasses.replace(p.main, params=(param,)),))


def _not_the_same_layout(p: ir.Program) -> ir.Program:
    aligned, drop = p.main.body[3], p.main.body[4]
    assert isinstance(aligned, ir.EnsureAligned)
    assert isinstance(drop, ir.Drop)
    assert isinstance(aligned.result.type, ir.TensorType)
    other = ir.Value("b", dataclasses.replace(aligned.result.type, dtype=ir.DType.I32))
    changed = _with_op(p, 3, dataclasses.replace(aligned, result=other))
    return _with_op(changed, 4, dataclasses.replace(drop, value=other))


def _no_tuple(p: ir.Program) -> ir.Program:
    launch = p.main.body[2]
    assert isinstance(launch, ir.Launch)
    return _with_op(p, 2, dataclasses.replace(launch, args=7))  # type: ignore[arg-type]  # that is the point


BUILT = {
    "WIR001": _no_tuple,
    "WIR005": lambda p: dataclasses.replace(p, symbols=p.symbols * 2),
    "WIR006": lambda p: dataclasses.replace(p, constants=p.constants * 2),
    "WIR007": lambda p: dataclasses.replace(p, functions=()),
    "WIR010": _undefined,
    "WIR011": _defined_twice,
    "WIR012": _another_type,
    "WIR030": _undeclared,
    "WIR053": _not_the_same_layout,
}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem.removeprefix("invalid_"))
def test_file_is_refused_with_its_code(path: Path) -> None:
    try:
        program = parse_program(path.read_text(encoding="utf-8"))
    except ParseError as error:  # of a kind that an op does not take: nothing can be made of such a text
        assert error.code in ("WIR013", "WIR014", "WIR096")
        assert error.code == _code(path)
        return
    diagnostics = check(program)
    assert [d.code for d in diagnostics][:1] == [_code(path)], "\n".join(map(str, diagnostics))
    assert diagnostics[0].check == RULES[diagnostics[0].code].check


@pytest.mark.parametrize("code", BUILT)
def test_built_program_is_refused_with_its_code(code: str) -> None:
    valid = parse_program(VALID)
    assert check(valid) == ()
    diagnostics = check(BUILT[code](valid))
    assert [d.code for d in diagnostics][:1] == [code], "\n".join(map(str, diagnostics))


def test_every_rule_has_a_case() -> None:
    assert {_code(p) for p in FILES} | BUILT.keys() == RULES.keys()
    assert len(FILES) >= 40
    assert all(re.fullmatch(r"WIR[02]\d\d", code) for code in RULES)


def test_constant_and_value_of_one_name() -> None:
    valid = parse_program(VALID)
    hidden = ir.Constant(value=ir.Value("a", valid.constants[0].value.type))
    diagnostics = check(dataclasses.replace(valid, constants=(*valid.constants, hidden)))
    assert diagnostics[0].code == "WIR011"


def test_error_shows_the_op_in_its_surroundings_and_its_source() -> None:
    text = VALID.replace("  launch @k(%x, %a)", "  launch @k(%x)  #1")
    text += '\nprovenance\n  #1 nodes("relu_3") ops("aten.relu.default") at("model.py:12")\n'
    with pytest.raises(VerificationError) as caught:
        verify(parse_program(text))
    diagnostic = caught.value.diagnostics[0]
    assert caught.value.code == diagnostic.code == "WIR083"
    assert (diagnostic.function, diagnostic.op_index) == ("main", 2)
    assert diagnostic.source == "relu_3, aten.relu.default, model.py:12"
    assert "launch @k(%x)\n  ^^^" in diagnostic.context
    assert "%b = ensure_aligned" in diagnostic.context


def test_every_finding_is_reported_at_once() -> None:
    text = VALID.replace("  drop %b\n", "").replace("return %a", "return")
    assert [d.code for d in check(parse_program(text))] == ["WIR066", "WIR067"]


_RELOCATED = """wir 0.5
target cpu

kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}

func @main(%x: f32[8], %y: f32[8]) {
  BEFORE
  set_storage %y, %x
  AFTER
  drop %x
  drop %y
  return
}
"""


def test_a_tensor_has_its_old_storage_until_it_gets_another() -> None:
    launch = "launch @k(%x, %y)"
    before = _RELOCATED.replace("BEFORE", launch).replace("  AFTER\n", "")
    assert check(parse_program(before)) == ()
    after = _RELOCATED.replace("AFTER", launch).replace("  BEFORE\n", "")
    assert [d.code for d in check(parse_program(after))] == ["WIR087"]


def test_an_emptied_storage_may_be_filled_again() -> None:
    text = """wir 0.5
target cpu

func @main(%x: f32[8], %y: f32[8], %none: f32[0]) {
  resize_storage %x, 0
  copy %none, %none
  resize_storage %x, 32
  copy %x, %y
  resize_storage %x, 0
  set_storage %x, %y
  copy %y, %x
  drop %x
  drop %y
  drop %none
  return
}
"""
    codes = [d.code for d in check(parse_program(text))]
    assert "WIR026" not in codes


def test_a_window_without_elements_holds_none_twice() -> None:
    text = """wir 0.5
target cpu

func @main(%x: f32[8], %y: f32[5, 0]) {
  %v = view %x : f32[5, 0]{0, 1}
  copy %v, %y
  drop %x
  drop %y
  return
}
"""
    assert check(parse_program(text)) == ()
    assert "WIR055" in [d.code for d in check(parse_program(text.replace("[5, 0]", "[5, 1]")))]


def test_a_loop_may_fill_a_buffer_row_by_row() -> None:
    """It reads its own writes; a kernel that writes some rows is declared to read the others."""
    text = """wir 0.5
target cpu

kernel cpp @row entry "row" (readwrite f32* rows, read i64* i) {{{
}}}

func @main(%go: bool[], %i: i64[]) {
  %a = alloc f32[8]
  %j = while @test do @body carried(%i) captured(%go, %a) : i64[]
  drop %go
  drop %i
  free %j
  return %a
}

func @test(%i: i64[], %go: bool[], %a: f32[8]) {
  drop %i
  drop %a
  return %go
}

func @body(%i: i64[], %go: bool[], %a: f32[8]) {
  drop %go
  launch @row(%a, %i)
  drop %a
  %j = alloc i64[]
  copy %j, %i
  drop %i
  return %j
}
"""
    assert check(parse_program(text)) == ()

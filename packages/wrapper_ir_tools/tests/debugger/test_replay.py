"""Replays parts of programs and compares them with the whole run."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import OPTIONS
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, Tensor, tensor
from packages.wrapper_ir_tools.tests.debugger.debug_case import BRANCH, LOOP, MEMORY, subject

from wrapper_ir import ir, load, save
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import DebugError
from wrapper_ir.text import print_function
from wrapper_ir_tools.debugger.replay import OpRange, parse_range, replay_piece
from wrapper_ir_tools.debugger.samples import samples
from wrapper_ir_tools.debugger.subject import Subject


def alone(piece: Artifact) -> Subject:
    return Subject(piece, ListMachine(), options=OPTIONS)


SIZES = """
func @main(%n: int, %x: f32[s0]) {
  define s0 = size(%x, 0)
  define u0 = item(%n)
  %y = alloc f32[s0]
  launch @double(%x, %y, s0)
  %z = call list::add(%y, %x) : f32[s0]
  free %y.s
  assert u0 > 2 "n"
  %w = call list::less(%z, %n) : bool[s0]
  return %w, u0 + s0
}
"""
CASES: dict[str, tuple[str, tuple[Tensor | int, ...]]] = {
    "memory": (MEMORY, (tensor([1.0, -2.0]),)),
    "loop": (LOOP, (tensor([-1.0, -2.0]),)),
    "branch": (BRANCH, (tensor(True, ir.DType.BOOL), tensor([1.0, 2.0]))),
    "sizes": (SIZES, (3, tensor([1.0, 2.0, 3.0]))),
}


@pytest.mark.parametrize("name", CASES)
def test_every_range(name: str) -> None:
    text, args = CASES[name]
    case = subject(text, *args)
    count = len(case.program.main.body)
    main = case.program.main
    # by an earlier call
    unpacked = {f"%{op.result.name}" for op in main.body if isinstance(op, ir.Unpack)}
    whole = {s.name: s for s in samples(case) if s.function is main and s.name not in unpacked}
    pieces = 0
    for first, last in itertools.combinations_with_replacement(range(count), 2):
        if last - first not in (0, 1, 4) and last != count - 1:
            # the others have no unpack
            continue
        try:
            piece = replay_piece(case, OpRange(first=first, last=last))
        except DebugError as error:
            # some ranges cannot be stored
            assert error.code == "WIR961"
            continue
        pieces += 1
        want = {n: s for n, s in whole.items() if first <= s.position <= last}
        got = {s.name: s for s in samples(alone(piece)) if s.name in want}
        assert got.keys() == want.keys()
        assert {n: s.content for n, s in got.items()} == {n: s.content for n, s in want.items()}
    assert pieces > count


def test_the_file(tmp_path: Path) -> None:
    text, args = CASES["sizes"]
    piece = replay_piece(subject(text, *args), OpRange(first=4, last=5))
    save(piece, tmp_path / "piece.wir")
    piece = load(tmp_path / "piece.wir")
    assert json.loads(piece.metadata["piece"]) == {"function": "main", "ops": [4, 5], "call": 1}
    assert (
        print_function(piece.program.main, piece.program)
        == """\
func @main() {
  define s0 = 3
  %x.s = alloc_storage 12
  %x.s.bytes = view %x.s : u8[12]
  copy %x.s.bytes, %x.s.content
  %x = view %x.s : f32[s0]
  %y.s = alloc_storage 12
  %y.s.bytes = view %y.s : u8[12]
  copy %y.s.bytes, %y.s.content
  %y = view %y.s : f32[s0]
  launch @double(%x, %y, s0)
  %z = call list::add(%y, %x) : f32[s0]
  free %x.s
  return %y, %z
}"""
    )


def test_a_loop_inside() -> None:
    case = subject(LOOP, tensor([-1.0, -2.0]))
    pieces = [replay_piece(case, OpRange(function="step", first=0, last=2, call=call)) for call in (1, 2, 3)]
    result = [next(s for s in samples(alone(piece)) if s.name == "%s") for piece in pieces]
    want = [s for s in samples(case) if s.name == "%s"][:3]
    assert [s.content for s in result] == [s.content for s in want]
    assert [f.name for f in pieces[0].program.functions] == ["main"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("3", OpRange(first=3, last=3)),
        ("3..7", OpRange(first=3, last=7)),
        ("@f:3..7#2", OpRange(first=3, last=7, function="f", call=2)),
        (" @a.b:0 ", OpRange(first=0, last=0, function="a.b")),
    ],
)
def test_ranges(text: str, want: OpRange) -> None:
    assert parse_range(text) == want


@pytest.mark.parametrize("text", ["", "x", "3..", "@f", "1...2", "-1"])
def test_invalid_ranges(text: str) -> None:
    with pytest.raises(DebugError, match="WIR960"):
        parse_range(text)


@pytest.mark.parametrize("text", ["99", "5..3", "@nothing:0", "@step:0#99"])
def test_ranges_that_are_not_there(text: str) -> None:
    with pytest.raises(DebugError, match="WIR960"):
        replay_piece(subject(LOOP, tensor([-1.0, -2.0])), parse_range(text))


def test_what_a_file_cannot_hold() -> None:
    case = subject(BRANCH, tensor(True, ir.DType.BOOL), tensor([1.0, 2.0]))
    position = next(i for i, op in enumerate(case.program.main.body) if type(op).__name__ == "Unpack")
    with pytest.raises(DebugError, match=r"WIR961.*%t, which the ops use, is"):
        replay_piece(case, OpRange(first=position, last=position))

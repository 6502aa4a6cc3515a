"""Constants with several names, and constants in one storage."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine

from wrapper_ir import check, from_json, ir, parse_program, print_program, to_json
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.artifact.file import load, save
from wrapper_ir.errors import ArtifactError, BuildError, ExecutionError
from wrapper_ir_passes.translation import compare
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_tools.diff import diff_programs

TEXT = """wir 0.5
target cpu

mutable const %b : f32[2] buffer storage("s", 8)
mutable const %a : f32[4] buffer names("m.a", "n.a") storage("s", 0)
const %w : f32[2] parameter names("w")

extern "list::neg(Tensor self) -> Tensor"

func @main() {
  copy %b, %w
  %y = call list::neg(%a) : f32[4]
  return %y
}
"""
STORED = struct.pack("4f", 1, 2, 3, 4)
WEIGHT = struct.pack("2f", 5, 6)


def artifact(stored: bytes = STORED) -> Artifact:
    data = {
        "s": TensorData(ir.DType.U8, memoryview(stored)),
        "w": TensorData(ir.DType.F32, memoryview(WEIGHT)),
    }
    return bare_artifact(parse_program(TEXT), data)


def hashed() -> Artifact:
    plain = artifact()
    constants = []
    for constant in plain.program.constants:
        data = plain.data_of(constant)
        assert data is not None
        constants.append(replace(constant, data_hash=hashlib.sha256(data.buffer).hexdigest()))
    return replace(plain, program=replace(plain.program, constants=tuple(constants)))


def test_forms() -> None:
    program = parse_program(TEXT)
    assert check(program) == ()
    assert print_program(program) == TEXT
    assert from_json(to_json(program)) == program
    assert [c.kind for c in program.constants] == [ir.ConstantKind.BUFFER] * 2 + [ir.ConstantKind.PARAMETER]


def test_every_name_finds_the_constant() -> None:
    program = parse_program(TEXT)
    assert program.constant_named("m.a") is program.constant_named("n.a") is program.constants[1]
    assert program.constant_named("b") is program.constants[0]
    with pytest.raises(BuildError, match="WIR310"):
        program.constant_named("m.b")


def test_names_are_seen_in_a_diff() -> None:
    program = parse_program(TEXT)
    assert "n.a" in diff_programs(program, parse_program(TEXT.replace('"m.a", "n.a"', '"m.a"')))


def test_data_of_one_constant() -> None:
    shared = artifact()
    data = [shared.data_of(c) for c in shared.program.constants]
    assert [None if d is None else bytes(d.buffer) for d in data] == [STORED[8:], STORED, WEIGHT]


def test_a_write_shows_in_the_constant_over_it() -> None:
    interpreter = Interpreter(artifact(), ListMachine())
    (result,) = interpreter.boxed([])
    assert result.tolist() == [-1.0, -2.0, -5.0, -6.0]
    b, a, _ = interpreter.constants.values()
    a[(3,)] = 9.0
    assert b.tolist() == [5.0, 9.0]


def test_storage_that_ends_too_early() -> None:
    with pytest.raises(ExecutionError, match=r"WIR929.*16 bytes"):
        Interpreter(artifact(STORED[:12]), ListMachine())


def test_roots_and_places() -> None:
    program = parse_program(TEXT)
    b, a, w = (c.value for c in program.constants)
    analyses = Analyses(program)
    aliasing = analyses.aliasing(program.main)
    assert (aliasing.roots[a], aliasing.roots[b], aliasing.roots[w]) == ((a,), (a,), (w,))
    assert analyses.summary("main").written_constants == (a,)


def test_a_read_of_overlapping_state_does_not_move_over_a_write() -> None:
    program = parse_program(TEXT)
    copy, neg, ret = program.main.body
    swapped = replace(program, functions=(replace(program.main, body=(neg, copy, ret)),))
    assert compare(program, program) is None
    assert compare(program, swapped) is not None
    apart = parse_program(TEXT.replace('storage("s", 8)', 'storage("s", 16)'))
    copy, neg, ret = apart.main.body
    assert compare(apart, replace(apart, functions=(replace(apart.main, body=(neg, copy, ret)),))) is None


def test_a_file_has_the_bytes_once(tmp_path: Path) -> None:
    save(hashed(), tmp_path / "m.wir")
    back = load(tmp_path / "m.wir")
    assert back.program == hashed().program
    assert {n: bytes(d.buffer) for n, d in back.constants.items()} == {"s": STORED, "w": WEIGHT}
    (result,) = Interpreter(back, ListMachine()).boxed([])
    assert result.tolist() == [-1.0, -2.0, -5.0, -6.0]


def test_a_window_that_does_not_fit_its_hash_is_refused(tmp_path: Path) -> None:
    original = hashed()
    other = struct.pack("4f", 1, 2, 3, 5)
    with pytest.raises(ArtifactError, match=r"WIR708.*%b"):
        save(
            replace(
                original, constants={**original.constants, "s": TensorData(ir.DType.U8, memoryview(other))}
            ),
            tmp_path / "m.wir",
        )

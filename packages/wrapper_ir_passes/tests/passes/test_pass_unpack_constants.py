"""`unpack-constants`: text in, text out, and what stays packed."""

from __future__ import annotations

from array import array

import pytest

from wrapper_ir import ir, parse_program, print_program, verify
from wrapper_ir.artifact import TensorData, bare_artifact
from wrapper_ir_passes import run_on_artifact, run_pipeline
from wrapper_ir_passes.packing.pack_constants import PACKED_FOR

ADDMM = "wrapper_ir::packed_addmm.out(Tensor? bias, Tensor mat1, Tensor packed, SymInt columns, *, Tensor(a!) out) -> Tensor(a!)"
INT8 = "wrapper_ir::packed_addmm_int8.out(Tensor? bias, Tensor mat1, Tensor packed, Tensor? scales, SymInt columns, *, Tensor(a!) out) -> Tensor(a!)"
CONVOLUTION = "wrapper_ir::packed_convolution.out(Tensor input, Tensor packed, Tensor? bias, SymInt[] kernel, SymInt out_channels, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups, *, Tensor(a!) out) -> Tensor(a!)"
HEAD = "wir 0.5\ntarget cpu\n\nsymbol s0 : int backed [2, 64] hint 8\n\n"
WEIGHT = 'const %w.packed : f32[2, 4, 16] parameter names("fc.weight") packed panels16 of "w"(24, 4) columns 24 transposed\n'
SUM = """\
const %b : f32[24]
extern "EXTERN"

func @main(%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %y = alloc f32[s0, 24]
  call wrapper_ir::packed_addmm.out(%b, %x, %w.packed, 24, out=%y)
  %z = alloc f32[s0, 24]
  call wrapper_ir::packed_addmm.out(none, %x, %w.packed, 24, out=%z)
  drop %x
  return %y, %z
}
""".replace("EXTERN", ADDMM)


def _program(text: str) -> ir.Program:
    program = parse_program(HEAD + text)
    verify(program)
    return program


def _unpacked(text: str) -> str:
    return print_program(run_pipeline(_program(text), "unpack-constants")).removeprefix(HEAD)


def test_matmuls_of_one_weight() -> None:
    """Both read one view of the original, which has its name and layout again."""
    assert (
        _unpacked(WEIGHT + SUM)
        == """\
const %w : f32[24, 4] parameter names("fc.weight")
const %b : f32[24]

extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %y = alloc f32[s0, 24]
  %w.matrix = view %w : f32[4, 24]{1, 4}
  call aten::addmm.out(%b, %x, %w.matrix, alpha=1, beta=1, out=%y)
  %z = alloc f32[s0, 24]
  call aten::mm.out(%x, %w.matrix, out=%z)
  drop %x
  return %y, %z
}
"""
    )


def test_the_original_of_a_tied_weight_is_used() -> None:
    text = _unpacked('const %w : f32[24, 4] parameter names("fc.weight")\n' + WEIGHT + SUM)
    assert text.count("const %w") == 1
    assert "  %w.matrix = view %w : f32[4, 24]{1, 4}\n" in text


def test_names_of_values_are_not_reused() -> None:
    """A constant is updated by its original name, although a value of the program has it."""
    weight = WEIGHT.replace('parameter names("fc.weight") ', "")
    text = _unpacked(weight + SUM.replace("%x", "%w"))
    assert 'const %w_ : f32[24, 4] names("w")\n' in text
    assert "call aten::mm.out(%w, %w_.matrix, out=%z)\n" in text


@pytest.mark.parametrize(
    ("packed", "weight", "groups"),
    [
        (
            'f32[1, 2, 36, 16] packed convolution_panels16 of "w"(24, 4, 3, 3) strides(36, 1, 12, 4)',
            "f32[24, 4, 3, 3]{36, 1, 12, 4}",
            1,
        ),
        ('f32[2, 1, 36, 16] packed convolution_panels16 of "w"(24, 4, 3, 3) groups 2', "f32[24, 4, 3, 3]", 2),
        ('f32[2, 9, 16] packed depthwise_panels16 of "w"(24, 1, 3, 3) groups 24', "f32[24, 1, 3, 3]", 24),
    ],
)
def test_convolutions(packed: str, weight: str, groups: int) -> None:
    channels = 24 if groups == 24 else 4 * groups
    text = _unpacked(
        f"""const %w.packed : {packed}
const %b : f32[24]
extern "{CONVOLUTION}"

func @main(%x: f32[s0, {channels}, 8, 8]) {{
  define s0 = size(%x, 0)
  %y = alloc f32[s0, 24, 8, 8]
  call wrapper_ir::packed_convolution.out(%x, %w.packed, %b, [3, 3], 24, [1, 1], [1, 1], [1, 1], {groups}, out=%y)
  drop %x
  return %y
}}
"""
    )
    assert text.startswith(f"const %w : {weight}\nconst %b")
    assert (
        "  call aten::convolution.out(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], "
        f"{groups}, out=%y)\n" in text
    )


def test_int8_matmuls() -> None:
    """The operator with scales has no out variant: its result is copied."""
    text = _unpacked(
        f"""const %w.packed : i8[2, 2, 16, 4] packed panels16_quads of "w"(24, 6) columns 24 transposed
const %v.packed : i8[2, 2, 16, 4] packed panels16_quads of "v"(6, 24) columns 24
const %s : bf16[24]
extern "{INT8}"

func @main(%x: bf16[2, 6], %i: i8[32, 6]) {{
  %y = alloc bf16[2, 24]
  call wrapper_ir::packed_addmm_int8.out(none, %x, %w.packed, %s, 24, out=%y)
  %z = alloc i32[32, 24]
  call wrapper_ir::packed_addmm_int8.out(none, %i, %v.packed, none, 24, out=%z)
  drop %x
  drop %i
  return %y, %z
}}
"""
    )
    assert "const %w : i8[24, 6]\nconst %v : i8[6, 24]\n" in text
    assert "  %y.result = call aten::_weight_int8pack_mm(%x, %w, %s) : bf16[2, 24]\n" in text
    assert "  copy %y, %y.result\n" in text
    assert "  call aten::_int_mm.out(%i, %v, out=%z)\n" in text


READ = """  %c = alloc f32[2, 4, 16]
  copy %c, %w.packed
  return %y, %z, %c
"""
STAYS = {
    "nothing is packed": 'const %w.packed : f32[2, 4, 16]\n' + SUM,
    "a sum of int8 that is added to": f"""const %w.packed : i8[2, 2, 16, 4] packed panels16_quads of "w"(6, 24) columns 24
const %b : i32[24]
extern "{INT8}"

func @main(%x: i8[32, 6]) {{
  %y = alloc i32[32, 24]
  call wrapper_ir::packed_addmm_int8.out(%b, %x, %w.packed, none, 24, out=%y)
  drop %x
  return %y
}}
""",
    "scales of a matrix in rows": f"""const %w.packed : i8[2, 2, 16, 4] packed panels16_quads of "w"(6, 24) columns 24
const %s : bf16[24]
extern "{INT8}"

func @main(%x: bf16[2, 6]) {{
  %y = alloc bf16[2, 24]
  call wrapper_ir::packed_addmm_int8.out(none, %x, %w.packed, %s, 24, out=%y)
  drop %x
  return %y
}}
""",
}  # fmt: skip


@pytest.mark.parametrize("case", STAYS)
def test_programs_that_stay(case: str) -> None:
    program = _program(STAYS[case])
    assert run_pipeline(program, "unpack-constants") is program


def test_a_constant_that_another_op_reads_stays_packed() -> None:
    text = _unpacked(WEIGHT + SUM.replace("  return %y, %z\n", READ))
    assert WEIGHT in text
    assert 'const %w : f32[24, 4] parameter names("fc.weight")\n' in text
    assert "wrapper_ir::" not in text


def test_data_of_artifacts() -> None:
    """Names, bytes and metadata are those before `pack-constants`."""
    numbers = TensorData(ir.DType.F32, memoryview(array("f", range(96)).tobytes()))
    program = _program(
        f"""const %w : f32[24, 4] names("fc.weight") sha256 "{numbers.sha256()}"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[s0, 4]) {{
  define s0 = size(%x, 0)
  %y = alloc f32[s0, 24]
  %w.matrix = view %w : f32[4, 24]{{1, 4}}
  call aten::mm.out(%x, %w.matrix, out=%y)
  drop %x
  return %y
}}
"""
    )
    artifact = bare_artifact(program, {"w": numbers})
    packed = run_on_artifact(artifact, "pack-constants")
    unpacked = run_on_artifact(packed, "unpack-constants")
    assert PACKED_FOR in packed.metadata
    assert PACKED_FOR not in unpacked.metadata
    assert unpacked.program == program
    assert unpacked.constants["w"].buffer == numbers.buffer
    assert set(unpacked.constants) == {"w"}

"""`pack-constants`: text in, text out, and the calls and constants that stay as they are."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import pytest

from wrapper_ir import ir, parse_program, print_program, verify
from wrapper_ir.artifact import TensorData, bare_artifact
from wrapper_ir.artifact.file import load, save
from wrapper_ir.artifact.packing import original_data
from wrapper_ir.operators.native import FUSED_CONVOLUTION, INT8_LINEAR
from wrapper_ir_passes import run_on_artifact, run_pipeline
from wrapper_ir_passes.packing.pack_constants import PACKED_FOR

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 8

CONSTANTS
extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor"
extern "aten::_int_mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"

"""
WEIGHT = 'const %w : f32[24, 4] parameter names("fc.weight")\nconst %b : f32[24]\n'


def _program(constants: str, body: str) -> ir.Program:
    return parse_program(f"{HEAD.replace('CONSTANTS', constants)}func @main({body}\n}}\n")


def _packed(constants: str, body: str, options: str = "") -> str:
    return print_program(run_pipeline(_program(constants, body), f"pack-constants{options}"))


def test_matmuls_over_views_of_a_weight() -> None:
    """The view and the original go; of two calls with one weight, both read one packed constant."""
    text = _packed(
        WEIGHT,
        """%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %t = view %w : f32[4, 24]{1, 4}
  %y = alloc f32[s0, 24]
  call aten::addmm.out(%b, %x, %t, alpha=1, beta=1, out=%y)
  %z = alloc f32[s0, 24]
  call aten::mm.out(%x, %t, out=%z)
  drop %x
  return %y, %z""",
    )
    assert text.endswith(
        """\
const %b : f32[24]
const %w.packed : f32[2, 4, 16] parameter names("fc.weight") packed panels16 of "w"(24, 4) columns 24 transposed

extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor"
extern "aten::_int_mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"
extern "wrapper_ir::packed_addmm.out(Tensor? bias, Tensor mat1, Tensor packed, SymInt columns, *, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %y = alloc f32[s0, 24]
  call wrapper_ir::packed_addmm.out(%b, %x, %w.packed, 24, out=%y)
  %z = alloc f32[s0, 24]
  call wrapper_ir::packed_addmm.out(none, %x, %w.packed, 24, out=%z)
  drop %x
  return %y, %z
}
"""
    )


def test_functional_calls_get_a_storage() -> None:
    text = _packed(
        "const %w : f32[4, 24]",
        """%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %y = call aten::mm(%x, %w) : f32[s0, 24]
  assert_layout %y [s0, 24] [24, 1] align(16) "aten.mm"
  drop %x
  return %y""",
    )
    assert text.endswith(
        """\
  %y = alloc f32[s0, 24]
  call wrapper_ir::packed_addmm.out(none, %x, %w.packed, 24, out=%y)
  drop %x
  return %y
}
"""
    )
    assert 'const %w.packed : f32[2, 4, 16] packed panels16 of "w"(4, 24) columns 24\n' in text


def test_tied_weights_stay() -> None:
    """A constant that an op still reads is stored twice."""
    text = _packed(
        WEIGHT,
        """%x: f32[2, 4]) {
  %t = view %w : f32[4, 24]{1, 4}
  %y = call aten::mm(%x, %t) : f32[2, 24]
  %z = alloc f32[24, 4]
  copy %z, %w
  drop %x
  return %y, %z""",
    )
    assert 'const %w : f32[24, 4] parameter names("fc.weight")\n' in text
    assert 'const %w.packed : f32[2, 4, 16] parameter names("fc.weight") packed' in text


CONVOLUTION = """%x: f32[s0, {channels}, 8, 8]) {{
  define s0 = size(%x, 0)
  %y = call aten::convolution(%x, %w, %b, stride=[1, 1], padding=[1, 1], dilation=[1, 1], transposed={transposed}, output_padding=[0, 0], groups={groups}) : f32[s0, 24, 8, 8]{{1536, 1, 192, 24}}
  assert_layout %y [s0, 24, 8, 8] [1536, 1, 192, 24] align(16) "aten.convolution"
  drop %x
  return %y"""


@pytest.mark.parametrize(
    ("weight", "groups", "packed"),
    [
        (
            "f32[24, 4, 3, 3]{36, 1, 12, 4}",
            1,
            'f32[1, 2, 36, 16] packed convolution_panels16 of "w"(24, 4, 3, 3) strides(36, 1, 12, 4)',
        ),
        ("f32[24, 4, 3, 3]", 2, 'f32[2, 1, 36, 16] packed convolution_panels16 of "w"(24, 4, 3, 3) groups 2'),
        ("f32[24, 1, 3, 3]", 24, 'f32[2, 9, 16] packed depthwise_panels16 of "w"(24, 1, 3, 3) groups 24'),
    ],
)
def test_convolutions(weight: str, groups: int, packed: str) -> None:
    channels = 24 if groups == 24 else 4 * groups
    body = CONVOLUTION.format(channels=channels, groups=groups, transposed="false")
    text = _packed(f"const %w : {weight}\nconst %b : f32[24]", body)
    assert f"const %w.packed : {packed}\n" in text
    assert text.endswith(
        f"""\
  %y = alloc f32[s0, 24, 8, 8]{{1536, 1, 192, 24}}
  call wrapper_ir::packed_convolution.out(%x, %w.packed, %b, [3, 3], 24, [1, 1], [1, 1], [1, 1], {groups}, out=%y)
  drop %x
  return %y
}}
"""
    )


FUSED = """\
%x: f32[2, 4, 8, 8], %r: f32[2, 24, 8, 8]) {
  %y = call wrapper_ir::fused_convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], 1, SCALE, %r, "clamp", 0.0, 6.0) : f32[2, 24, 8, 8]
  drop %x
  drop %r
  return %y"""


def test_a_fused_convolution() -> None:
    """Its epilogue stays; a scale of another size keeps the weight as it is."""
    constants = f"""\
const %w : f32[24, 4, 3, 3]
const %b : f32[24]
const %s : f32[24]
const %t : f32[1]
extern {json.dumps(FUSED_CONVOLUTION.schema)}"""
    text = _packed(constants, FUSED.replace("SCALE", "%s"))
    assert (
        "call wrapper_ir::packed_convolution.out(%x, %w.packed, %b, [3, 3], 24, [1, 1], [1, 1], [1, 1], 1, "
        '%s, %r, "clamp", 0.0, 6.0, out=%y)' in text
    )
    assert "%w.packed" not in _packed(constants, FUSED.replace("SCALE", "%t"))
    program = _program(constants, FUSED.replace("SCALE", "%s"))
    assert (
        "= call wrapper_ir::fused_convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], 1, %s, %r, "
        '"clamp", 0.0, 6.0)' in print_program(run_pipeline(program, "pack-constants,unpack-constants"))
    )


_MM = "%x: f32[2, 4]) {{\n  %y = call aten::mm(%x, %w) : f32[2, {n}]\n  drop %x\n  return %y"
LEFT = {
    "a mutable constant": ("mutable const %w : f32[4, 24]", _MM.format(n=24)),
    "a constant in a storage with others": (
        'const %w : f32[4, 24] storage("s", 0)\nconst %v : f32[8] storage("s", 32)', _MM.format(n=24)),
    "few columns": ("const %w : f32[4, 7]", _MM.format(n=7)),
    "gaps between elements": ("const %w : f32[4, 24]{32, 1}", _MM.format(n=24)),
    "doubles": ("const %w : f64[4, 24]", _MM.format(n=24).replace("f32", "f64")),
    "half of a constant": ("const %w : f32[48, 4]", """%x: f32[2, 4]) {
  %t = view %w : f32[4, 24]{1, 4}
  %y = call aten::mm(%x, %t) : f32[2, 24]
  drop %x
  return %y"""),
    "a view from another byte on": ("const %w : f32[24, 4]", """%x: f32[2, 4]) {
  %t = view %w + 192 : f32[4, 12]{1, 4}
  %y = call aten::mm(%x, %t) : f32[2, 12]
  drop %x
  return %y"""),
    "a factor": (WEIGHT, """%x: f32[2, 4]) {
  %t = view %w : f32[4, 24]{1, 4}
  %y = alloc f32[2, 24]
  call aten::addmm.out(%b, %x, %t, alpha=2, beta=1, out=%y)
  drop %x
  return %y"""),
    "a matrix that is added": ("const %w : f32[4, 24]", """%x: f32[2, 4], %a: f32[2, 24]) {
  %y = alloc f32[2, 24]
  call aten::addmm.out(%a, %x, %w, alpha=1, beta=1, out=%y)
  drop %x
  drop %a
  return %y"""),
    "a transposed convolution": (
        "const %w : f32[4, 24, 3, 3]\nconst %b : f32[24]",
        CONVOLUTION.format(channels=4, groups=1, transposed="true")),
    "groups of few output channels": (
        "const %w : f32[24, 4, 3, 3]\nconst %b : f32[24]",
        CONVOLUTION.format(channels=24, groups=6, transposed="false")),
    "a weight that is computed": ("const %b : f32[24]", """%x: f32[2, 4], %w: f32[4, 24]) {
  %y = alloc f32[2, 24]
  call aten::addmm.out(%b, %x, %w, alpha=1, beta=1, out=%y)
  drop %x
  drop %w
  return %y"""),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT)
def test_calls_that_stay(case: str) -> None:
    program = _program(*LEFT[case])
    verify(program)
    assert run_pipeline(program, "pack-constants") is program


@pytest.mark.parametrize("level", ["avx512", "avx2", "generic"])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_elements_of_two_bytes(dtype: str, level: str) -> None:
    body = _MM.format(n=24).replace("f32[2, 4]", "f32[2, 5]").replace("f32", dtype)
    text = _packed(f"const %w : {dtype}[5, 24]", body, f"{{level={level}}}")
    assert f'const %w.packed : {dtype}[2, 3, 16, 2] packed panels16_pairs of "w"(5, 24) columns 24\n' in text


def test_int8_matmuls() -> None:
    """Of floats with scales, whose matrix is transposed, and of integers."""
    text = _packed(
        "const %w : i8[24, 6]\nconst %v : i8[6, 24]\nconst %s : bf16[24]",
        """%x: bf16[2, 6], %i: i8[32, 6]) {
  %y = call aten::_weight_int8pack_mm(%x, %w, %s) : bf16[2, 24]
  %z = call aten::_int_mm(%i, %v) : i32[32, 24]
  drop %x
  drop %i
  return %y, %z""",
    )
    assert (
        'const %w.packed : i8[2, 2, 16, 4] packed panels16_quads of "w"(24, 6) columns 24 transposed\n'
        in text
    )
    assert 'const %v.packed : i8[2, 2, 16, 4] packed panels16_quads of "v"(6, 24) columns 24\n' in text
    assert "call wrapper_ir::packed_addmm_int8.out(none, %x, %w.packed, %s, 24, out=%y)" in text
    assert "call wrapper_ir::packed_addmm_int8.out(none, %i, %v.packed, none, 24, out=%z)" in text


_LAYER = """\
%x: f32[2, 6]) {
  %y = call wrapper_ir::int8_linear(%x, %w, %s, none, %b, "exact", "relu", 0.0, 0.0) : f32[2, 24]
  drop %x
  return %y"""


def _layer_constants(weight: str = "i8[24, 6]", scales: str = "f32[24]") -> str:
    extern = f"extern {json.dumps(INT8_LINEAR.schema)}"
    return f"const %w : {weight}\nconst %s : {scales}\nconst %b : f32[24]\n{extern}"


@pytest.mark.parametrize(("options", "rows"), [("", "exact"), ("{rounds_rows=true}", "fixed")])
def test_int8_layers(options: str, rows: str) -> None:
    """The last arguments stay; an option lets rows be rounded. Unpacked, the operator reads the original."""
    text = _packed(_layer_constants(), _LAYER, options)
    packing = 'i8[2, 2, 16, 4] packed panels16_quads of "w"(24, 6) columns 24 transposed'
    assert f"const %w.packed : {packing}\n" in text
    call = f'(%x, %w.packed, %s, none, %b, 24, "{rows}", "relu", 0.0, 0.0, out=%y)'
    assert f"  call wrapper_ir::packed_int8_linear.out{call}\n" in text
    again = print_program(
        run_pipeline(_program(_layer_constants(), _LAYER), f"pack-constants{options},unpack-constants")
    )
    assert f'call wrapper_ir::int8_linear(%x, %w, %s, none, %b, "{rows}", "relu", 0.0, 0.0)' in again


def test_int8_layers_of_rounded_rows() -> None:
    """Rows that are integers, or are rounded to 8 bits, stay so; omitted arguments are written."""
    body = _LAYER.replace('"exact", "relu", 0.0, 0.0', '"int8"')
    text = _packed(_layer_constants(), body, "{rounds_rows=true}")
    assert '%s, none, %b, 24, "int8", "none", 0.0, 0.0, out=%y)' in text
    integers = _LAYER.replace("f32[2, 6]", "i8[2, 6]")
    assert '%b, 24, "exact", "relu", 0.0, 0.0, out=%y)' in _packed(
        _layer_constants(), integers, "{rounds_rows=true}"
    )


@pytest.mark.parametrize(
    "constants",
    [
        _layer_constants(scales="f32[1]"),
        _layer_constants(scales="f64[24]"),
        _layer_constants(weight="i8[24, 6]{8, 1}"),
        _layer_constants().replace("const %w", "mutable const %w"),
    ],
)
def test_int8_layers_that_stay(constants: str) -> None:
    """Scales of another size or type, a weight with gaps, and one that is written."""
    program = _program(constants, _LAYER)
    assert run_pipeline(program, "pack-constants") is program


def test_data_of_artifacts(tmp_path: Path) -> None:
    """The packed bytes replace those of the original, which they contain; the file is read again."""
    numbers = TensorData(ir.DType.F32, memoryview(array("f", range(96)).tobytes()))
    bias = TensorData(ir.DType.F32, memoryview(bytes(96)))
    hashes = [data.sha256() for data in (numbers, bias)]
    constants = f'const %w : f32[24, 4] names("fc.weight") sha256 "{hashes[0]}"\nconst %b : f32[24] sha256 "{hashes[1]}"\n'
    program = _program(constants, LEFT["a factor"][1].replace("alpha=2", "alpha=1"))
    artifact = run_on_artifact(
        bare_artifact(program, {"w": numbers, "b": bias}), "pack-constants{level=generic}"
    )
    assert set(artifact.constants) == {"b", "w.packed"}
    assert artifact.metadata[PACKED_FOR] == "generic"
    path = tmp_path / "m.wir"
    save(artifact, path)
    loaded = load(path)
    constant = loaded.program.constant_named("fc.weight")
    data = original_data(loaded, constant)
    assert data is not None
    assert data.buffer == numbers.buffer
    assert run_on_artifact(loaded, "pack-constants") is loaded

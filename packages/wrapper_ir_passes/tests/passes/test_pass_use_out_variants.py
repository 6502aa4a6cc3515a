"""`use-out-variants`: text in, text out, and which calls stay as they are."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir.errors import PassError
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.use_out_variants import UseOutVariants
from wrapper_ir_passes.translation import compare
from wrapper_ir_tools.testing import random_program

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 8
symbol u0 : int unbacked [0, 64]

extern "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"
extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::exp(Tensor self) -> Tensor"
extern "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor" tags(random)

"""


def _changed(body: str) -> str:
    program = parse_program(f"{HEAD}func @main({body}\n}}\n")
    text = print_program(run_pipeline(program, (UseOutVariants(),)))
    return text[text.index("extern ") :]


def test_results_are_storages_of_the_program() -> None:
    """Of fixed and of symbolic sizes; the variant is declared once."""
    body = """%x: f32[s0, 4], %w: f32[4, 4]) {
  define s0 = size(%x, 0)
  %a = call aten::mm(%x, %w) : f32[s0, 4]
  %b = call aten::mm(%a, %w) : f32[s0, 4]
  %c = call aten::cumsum(%b, 0) : f32[s0, 4]
  return %c"""
    text = _changed(body)
    assert text.count('extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"') == 1
    assert text.endswith(
        """\
  define s0 = size(%x, 0)
  %a = alloc f32[s0, 4]
  call aten::mm.out(%x, %w, out=%a)
  drop %x
  %b = alloc f32[s0, 4]
  call aten::mm.out(%a, %w, out=%b)
  drop %w
  free %a.s
  %c = alloc f32[s0, 4]
  call aten::cumsum.out(%b, 0, out=%c)
  free %b.s
  return %c
}
"""
    )


LEFT = {
    "no variant that allocates nothing": "%x: f32[4, 4]) {\n  %a = call aten::exp(%x) : f32[4, 4]\n  return %a",
    "more than a result": "%x: f32[4, 4], %i: i64[4, 4]) {\n  %a = call aten::gather(%x, 0, %i) : f32[4, 4]\n  return %a",
    "bytes between elements": "%x: f32[4, 4]) {\n  %a = call aten::cumsum(%x, 0) : f32[4, 4]{8, 1}\n  return %a",
    "sizes that the result itself says": "%x: f32[4, 4]) {\n  %a = call aten::cumsum(%x, 0) : f32[u0, 4]\n"
    "  define u0 = size(%a, 0)\n  return %a",
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT)
def test_what_stays(case: str) -> None:
    program = parse_program(f"{HEAD}func @main({LEFT[case]}\n}}\n")
    assert UseOutVariants().run(program) is program


def test_the_comparison_sees_other_changes() -> None:
    """Excludes the changes that the pass makes on purpose, and nothing else."""

    class Wrong(UseOutVariants):
        def transform(self, analyses):  # type: ignore[no-untyped-def]  # the base's
            result = super().transform(analyses)
            main = result.main
            calls = [op for op in main.body if isinstance(op, ir.CallExtern)]
            return result.with_functions([main.with_body(op for op in main.body if op is not calls[-1])])

    body = "%x: f32[4, 4]) {\n  %a = call aten::mm(%x, %x) : f32[4, 4]\n  return %a"
    with pytest.raises(PassError, match="WIR805"):
        run_pipeline(parse_program(f"{HEAD}func @main({body}\n}}\n"), (Wrong(),))


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed: int) -> None:
    program = random_program(random.Random(seed), size=30)
    changed = UseOutVariants().run(program)
    assert check(changed) == ()
    assert compare(*UseOutVariants().comparable(program, changed)) is None
    assert check(derive_frees(changed)) == ()


NATIVE = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 8

extern "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"
extern "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)" tags(random)
extern "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"

"""


def _native(body: str) -> str:
    program = parse_program(f"{NATIVE}func @main({body}\n}}\n")
    text = print_program(run_pipeline(program, "use-out-variants{runtime=native}"))
    return text[text.index("func ") :]


def test_convolutions_of_the_native_runtime() -> None:
    """A check of the layout with which the result is allocated goes."""
    body = """%x: f32[s0, 3, 8, 8], %w: f32[4, 3, 1, 1]) {
  define s0 = size(%x, 0)
  %y = call aten::convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : f32[s0, 4, 8, 8]{256, 1, 32, 4}
  assert_layout %y [s0, 4, 8, 8] [256, 1, 32, 4] align(16) "convolution"
  %z = call aten::cumsum(%y, 0) : f32[s0, 4, 8, 8]
  drop %x
  drop %w
  free %y
  return %z"""
    assert (
        _native(body)
        == """\
func @main(%x: f32[s0, 3, 8, 8], %w: f32[4, 3, 1, 1]) {
  define s0 = size(%x, 0)
  %y = alloc f32[s0, 4, 8, 8]{256, 1, 32, 4}
  call aten::convolution.out(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1, out=%y)
  drop %x
  drop %w
  %z = call aten::cumsum(%y, 0) : f32[s0, 4, 8, 8]
  free %y.s
  return %z
}
"""
    )


ATTENTION = """%q: f32[2, 4, 8, 16], %k: f32[2, 4, 8, 16], %m: f32[8, 8]) {{
  %t = call aten::_scaled_dot_product_flash_attention_for_cpu(%q, %k, %k, {dropout}, attn_mask=%m) : results
  %y = unpack %t[0] : f32[2, 4, 8, 16]{{512, 16, 64, 1}}
{more}  drop %t
  assert_layout %y [2, 4, 8, 16] [512, 16, 64, 1] align(16) "attention"
  drop %q
  drop %k
  drop %m
  return %y"""


def test_attention_of_the_native_runtime() -> None:
    assert (
        _native(ATTENTION.format(dropout="0.0", more=""))
        == """\
func @main(%q: f32[2, 4, 8, 16], %k: f32[2, 4, 8, 16], %m: f32[8, 8]) {
  %y = alloc f32[2, 4, 8, 16]{512, 16, 64, 1}
  call wrapper_ir::attention.out(%q, %k, %k, false, %m, none, out=%y)
  drop %q
  drop %k
  drop %m
  return %y
}
"""
    )


@pytest.mark.parametrize(
    ("dropout", "more"),
    [("0.5", ""), ("0.0", "  %l = unpack %t[1] : f32[2, 4, 8]\n  free %l\n")],
    ids=["dropout", "logsumexp"],
)
def test_attention_that_stays(dropout: str, more: str) -> None:
    program = parse_program(f"{NATIVE}func @main({ATTENTION.format(dropout=dropout, more=more)}\n}}\n")
    assert run_pipeline(program, "use-out-variants{runtime=native}") is program

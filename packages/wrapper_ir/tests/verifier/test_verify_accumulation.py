"""The out argument of an accumulating matmul may be the tensor that it adds to, and no other operand."""

from __future__ import annotations

import pytest

from wrapper_ir import check, parse_program
from wrapper_ir_passes.cleanup.derive_frees import derive_frees

_TEXT = """wir 0.5
target cpu

extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[8, 8], %y: f32[8, 8], %long: f32[72], %row: f32[8]) {
LINES
  return
}
"""


def _codes(lines: str) -> list[str]:
    return [each.code for each in check(derive_frees(parse_program(_TEXT.replace("LINES", lines))))]


@pytest.mark.parametrize(
    "lines",
    [
        "  call aten::addmm.out(%x, %y, %y, out=%x)",
        "  %a = view %long + 32 : f32[8, 8]\n  %b = view %long + 32 : f32[8, 8]\n  call aten::addmm.out(%a, %x, %y, out=%b)",
    ],
)
def test_the_same_elements(lines: str) -> None:
    assert _codes(lines) == []


@pytest.mark.parametrize(
    "lines",
    [
        "  call aten::addmm.out(%x, %x, %y, out=%x)",  # is a factor, too
        "  call aten::addmm.out(%y, %x, %y, out=%x)",  # the factor alone
        "  %t = view %x : f32[8, 8]{1, 8}\n  call aten::addmm.out(%x, %y, %y, out=%t)",  # in another order
        "  %a = view %long : f32[8, 8]\n  %b = view %long + 32 : f32[8, 8]\n  call aten::addmm.out(%a, %x, %y, out=%b)",  # shifted
        "  %a = view %row : f32[8, 8]{0, 1}\n  call aten::addmm.out(%a, %x, %y, out=%a)",  # elements that share bytes
        "  call aten::add.out(%x, %y, out=%x)",  # it is not known of others
    ],
)
def test_other_elements(lines: str) -> None:
    assert "WIR079" in _codes(lines)

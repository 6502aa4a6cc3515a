"""Errors that a pass repairs are accepted in its input, and no others."""

from __future__ import annotations

import pytest

from wrapper_ir import check, parse_program, verify
from wrapper_ir.errors import VerificationError
from wrapper_ir.verifier import RULES
from wrapper_ir_passes import PASSES, run_pipeline
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees

HEAD = 'wir 0.5\ntarget cpu\n\nextern "aten::relu(Tensor self) -> Tensor"\n\nconst %w : f32[8]\n\n'
RELU = "%t = call aten::relu(%x) : f32[8]"
BROKEN = {
    "WIR060": f"{RELU}\n free %t\n %y = call aten::relu(%t) : f32[8]\n return %y",
    "WIR061": f"drop %x\n {RELU}\n return %t",
    "WIR063": f"{RELU}\n free %t\n free %t\n return",
    "WIR064": "free %x\n return",
    "WIR065": f"{RELU}\n %v = view %t : f32[8]\n free %v\n free %t\n return",
    "WIR066": f"{RELU}\n return",
    "WIR067": '%e = record_event @cpu\n return',
    "WIR070": f"{RELU}\n drop %t\n return",
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(DeriveFrees.repairs))
def test_derive_frees_mends_what_it_says(code: str) -> None:
    program = parse_program(f"{HEAD}func @main(%x: f32[8]) {{\n {BROKEN[code]}\n}}\n")
    assert code in {d.code for d in check(program)}
    verify(run_pipeline(program, "derive-frees"))


def test_everything_else_is_refused() -> None:
    program = parse_program(
        f"{HEAD}func @main(%x: f32[8]) {{\n {RELU}\n %z = call aten::relu(%w) : f32[9]\n call lib::none(%x)\n}}\n"
    )
    with pytest.raises(VerificationError) as caught:
        run_pipeline(program, "derive-frees")
    assert {d.code for d in caught.value.diagnostics}.isdisjoint(DeriveFrees.repairs)


def test_without_a_pass_nothing_is_forgiven() -> None:
    program = parse_program(f"{HEAD}func @main(%x: f32[8]) {{\n {BROKEN['WIR066']}\n}}\n")
    with pytest.raises(VerificationError):
        run_pipeline(program, "")


def test_passes_repair_rules_that_exist() -> None:
    for cls in PASSES.values():
        assert cls.repairs <= set(RULES)

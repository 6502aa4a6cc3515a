"""The straight-line form: its text, and the names that it looks up beforehand."""

from __future__ import annotations

import math

import pytest
import torch

import fx_converter
import wrapper_ir
from fx_converter import FxOptions, boxed_source
from fx_converter.kernels import KernelCalls
from wrapper_ir.artifact import bare_artifact

ADD = 'extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"\n'


def source(body: str, form: KernelCalls = "hop") -> tuple[str, list[str]]:
    """The text of a function of one argument, and the names in it besides torch."""
    text = f"wir 0.5\ntarget cpu\n\n{ADD}\nfunc @main(%x: f32[4]) {{\n{body}}}\n"
    module = fx_converter.convert(
        bare_artifact(wrapper_ir.parse_program(text)), FxOptions(kernel_calls=form, check_results=False)
    )
    written, scope = boxed_source(module)
    return written, sorted(name for name in scope if name != "torch")


def test_equal_devices_are_one_object() -> None:
    """Each node has a separate device object; a lookup for each would make conversion superlinear."""
    body = "".join(f"  %b{i} = alloc f32[4]\n  copy %b{i}, %x\n  free %b{i}.s\n" for i in range(50))
    _, names = source(body + "  return\n")
    assert names == [
        "_constant",
        "_constant_1",
        "_copy__default",
        "_count_modes",
        "_empty_strided_default",
        "_inputs",
        "_storages",
    ]


def test_numbers_stand_in_the_text() -> None:
    written, names = source("  %y = call aten::add.Tensor(%x, %x, alpha=0.5) : f32[4]\n  return %y\n")
    assert "(x, x, alpha=0.5)" in written
    assert names == ["_add_Tensor", "_count_modes", "_inputs", "_storages"]


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_without_a_text_are_looked_up(number: float) -> None:
    module = fx_converter.convert(
        bare_artifact(
            wrapper_ir.parse_program("wir 0.5\ntarget cpu\n\nfunc @main(%x: f32[4]) {\n  return %x\n}\n")
        )
    )
    (output,) = module.graph.find_nodes(op="output")
    with module.graph.inserting_before(output):
        filled = module.graph.call_function(torch.full, ([2], number))
    output.args = ((filled,),)
    torch.testing.assert_close(
        fx_converter.boxed_call(module)([torch.ones(4)])[0], torch.full([2], number), equal_nan=True
    )

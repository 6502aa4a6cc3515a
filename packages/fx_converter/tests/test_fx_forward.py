"""The `forward` that graphs of direct calls have: its text, what it follows, and where torch's own takes its place."""

from __future__ import annotations

import pytest
import torch
from packages.fx_converter.tests.linear_module import artifact, made, same, want
from torch import nn
from torch.fx.experimental import _config as fx_config

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.options import Convention, KernelCalls
from wrapper_ir.artifact import bare_artifact

TEXT = """\
def forward(self, x):
    try:
        bias, weight = _attributes(self._buffers)
    except KeyError:
        bias, weight = _attributes_1(self)
    turned, = _windows(weight)
    product = __empty_strided_cpu((4, 2), (2, 1), _constant)
    _mm_out(x, turned, out=product)
    del x
    sum_1 = _add_Tensor(product, bias)
    _assert_layout(sum_1, [4, 2], [2, 1], 0, '%sum')
    del product
    return (sum_1,)
"""


def test_the_text() -> None:
    module = made()
    assert module.code.strip("\n") + "\n" == TEXT
    same(module, want())


def test_operators_keep_torchs_own_text() -> None:
    """Which tracers read."""
    assert "torch.ops.aten.mm.out(" in made("hop").code


def test_a_changed_graph_is_written_again() -> None:
    module = made()
    (output,) = module.graph.find_nodes(op="output")
    (result,) = output.args[0]
    with module.graph.inserting_before(output):
        output.args = ((module.graph.call_function(torch.neg, (result,)),),)
    same(module, want())
    module.recompile()
    same(module, -want())


def test_attributes_and_modules_that_were_added() -> None:
    module = made()
    module.add_module("scale", nn.Linear(2, 2, bias=False))
    module.add_module("inner", nn.ParameterDict({"shift": torch.ones(2)}))
    graph = module.graph
    (output,) = graph.find_nodes(op="output")
    (result,) = output.args[0]
    with graph.inserting_before(output):
        scaled = graph.call_module("scale", (result,))
        shifted = graph.call_method("add", (scaled, graph.get_attr("inner.shift")))
        output.args = ((shifted,),)
    module.recompile()
    assert "_scale, inner_shift = _attributes_2(self)" in module.code
    scale = module.get_parameter("scale.weight")
    same(module, want() @ scale.T + 1)


@pytest.mark.parametrize("name", ["self", "_leaves", "_convention", "args", "kwargs", "_attributes", "torch"])
@pytest.mark.parametrize("convention", ["flat", "model"])
@pytest.mark.parametrize("form", ["direct", "hop"])
def test_names_that_the_text_has_too(name: str, convention: Convention, form: KernelCalls) -> None:
    text = f"wir 0.1\ntarget cpu\n\nfunc @main(%{name}: f32[4], %y: f32[4]) {{\n  copy %{name}, %y\n"
    program = wrapper_ir.parse_program(f"{text}  return %{name}\n}}\n")
    module = fx_converter.convert(bare_artifact(program), FxOptions(kernel_calls=form, convention=convention))
    first = module.graph.find_nodes(op="placeholder")[0]
    assert first.meta["value"] == name
    (result,) = module(torch.zeros(4), torch.ones(4))
    assert result.tolist() == [1.0] * 4


class TestTorchsText:
    """Where more is asked of the text than to be called."""

    def test_readable(self) -> None:
        text = made().print_readable(print_output=False)
        assert 'weight: "f32[2, 3]" = self.weight' in text.replace("Sym(", "").replace("[3, 1]", "")

    def test_of_transformers(self) -> None:
        module = made()
        seen: list[str] = []

        def transformer(lines: list[str]) -> list[str]:
            seen.extend(lines)
            return lines

        with module.graph.on_generate_code(lambda current: transformer):
            module.recompile()
        assert any("self.weight" in line for line in seen)
        same(module, want())
        module.recompile()
        assert module.code.strip("\n") + "\n" == TEXT

    def test_for_the_profiler(self) -> None:
        module = made()
        with fx_config.patch("enrich_profiler_metadata", True):  # type: ignore[attr-defined]  # the stubs lack it
            module.recompile()
        assert "_RecordFunctionFast" in module.code
        same(module, want())

    def test_lines_belong_to_nodes(self) -> None:
        module = made()
        nodes = [node.name for node in module.graph.nodes]
        lines = module.code.strip("\n").split("\n")
        assert module._lineno_map is not None
        named = {
            lines[at].strip(): nodes[number]
            for at, number in module._lineno_map.items()
            if number is not None
        }
        assert named["_mm_out(x, turned, out=product)"] == "mm_out"
        assert named["return (sum_1,)"] == "output"

    def test_a_failing_line_is_shown(self, capsys: pytest.CaptureFixture[str]) -> None:
        module = fx_converter.convert(artifact(), FxOptions(assertions=False, convention="flat"))
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            module(torch.ones(4, 5))
        assert "_mm_out(x, turned, out=product)" in capsys.readouterr().err

"""The `forward` of graphs with direct calls: its text, the changes that it follows, and its fallback to
torch's text."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from packages.fx_converter.tests.linear_module import WEIGHT, X, artifact, made, same, want
from torch import fx, nn
from torch.fx.experimental import _config as fx_config

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from fx_converter.options import Convention
from wrapper_ir import ir
from wrapper_ir.artifact import TensorData, bare_artifact
from wrapper_ir.errors import ExecutionError

TEXT = """\
@_unrecorded
def forward(self, x):
    try:
        bias, weight = _attributes(self._buffers)
    except KeyError:
        bias, weight = _attributes_1(self)
    turned, = _windows(weight)
    _inputs.match(x) or _inputs.check(x)
    _storages.holds(x) or _storages.check(x)
    matmul = __empty_strided_cpu((4, 2), (2, 1), _constant)
    _mm_out(x, turned, out=matmul)
    del x
    sum_1 = _add_Tensor(matmul, bias)
    sum_1.dtype is _constant or _check_result(sum_1, "sum", _constant, "cpu", ["dtype"])
    _assert_layout(sum_1, [4, 2], [2, 1], 0, "%sum")
    del matmul
    return (sum_1,)
"""


def test_the_text() -> None:
    module = made()
    assert module.code.strip("\n") + "\n" == TEXT
    same(module, want())


def test_operators_keep_torchs_own_text() -> None:
    """Tracers read it."""
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
    text = f"wir 0.5\ntarget cpu\n\nfunc @main(%{name}: f32[4], %y: f32[4]) {{\n  copy %{name}, %y\n"
    program = wrapper_ir.parse_program(f"{text}  return %{name}\n}}\n")
    module = fx_converter.convert(bare_artifact(program), FxOptions(kernel_calls=form, convention=convention))
    first = module.graph.find_nodes(op="placeholder")[0]
    assert first.meta["value"] == name
    (result,) = module(torch.zeros(4), torch.ones(4))
    assert result.tolist() == [1.0] * 4


HEAD = """wir 0.5
target cpu

extern "aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
extern "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"

mutable const %w : f32[4] sha256 "{hash}"

"""


def over_ones(body: str) -> fx.GraphModule:
    """A module with a constant of four ones."""
    data = TensorData(ir.DType.F32, memoryview(torch.ones(4).numpy().tobytes()))
    text = f"{HEAD.replace('{hash}', data.sha256())}func @main(%x: f32[2, 2]) {{\n{body}}}\n"
    program = wrapper_ir.parse_program(text)
    wrapper_ir.verify(program)
    return fx_converter.convert(bare_artifact(program, {"w": data}), FxOptions(convention="flat"))


class TestWindows:
    """Windows of constants persist between calls if only their bytes can change."""

    def test_autograd_records_nothing(self) -> None:
        module = over_ones(
            "  %v = view %w : f32[2, 2]\n  call aten::mul_.Tensor(%v, %x)\n  drop %x\n"
            "  %r = call aten::clone(%v) : f32[2, 2]\n  return %r\n"
        )
        for factor in (2, 4, 8):
            (result,) = module(torch.full((2, 2), 2.0, requires_grad=True))
            assert not result.requires_grad
            assert torch.equal(result, torch.full((2, 2), float(factor)))
            assert torch.is_grad_enabled()

    def test_what_a_caller_does_to_a_result_ends_with_it(self) -> None:
        module = over_ones("  %v = view %w : f32[2, 2]\n  drop %x\n  return %v\n")
        for run in (module, lambda x: fx_converter.boxed_call(module)([x])):
            (first,) = run(torch.ones(2, 2))
            first.unsqueeze_(0).requires_grad_()
            (second,) = run(torch.ones(2, 2))
            assert second.shape == (2, 2)
            assert not second.requires_grad


def test_an_empty_input_has_sizes_too() -> None:
    """Torch's own check accepts any tensor without elements."""
    text = 'func @main(%x: f32[4, 3]) {\n  assert_layout %x [4, 3] [3, 1] "input"\n  return %x\n}\n'
    module = fx_converter.convert(bare_artifact(wrapper_ir.parse_program(f"wir 0.5\ntarget cpu\n\n{text}")))
    with pytest.raises(
        ExecutionError, match=r"WIR921.*argument x: expected f32\[4, 3\] on cpu, got f32\[0, 3\]"
    ):
        module(torch.ones(0, 3))


class Level(enum.IntEnum):
    HIGH = 2


class Pair(NamedTuple):
    first: object
    second: object


class TestEditedGraphs:
    """Nodes that conversion never creates, but that an edited graph may have."""

    @staticmethod
    def returning(make: Callable[[fx.Graph, fx.Node], object]) -> fx.GraphModule:
        """Returns a module whose graph applies this to the matmul's result."""
        module = made()
        (output,) = module.graph.find_nodes(op="output")
        (result,) = output.args[0]
        with module.graph.inserting_before(output):
            output.args = (make(module.graph, result),)
        module.recompile()
        return module

    def test_members_of_enumerations(self) -> None:
        module = self.returning(lambda graph, result: graph.call_function(torch.mul, (result, Level.HIGH)))
        torch.testing.assert_close(module(X), want() * 2)

    def test_named_tuples(self) -> None:
        found = self.returning(lambda graph, result: Pair(result, (result,)))(X)
        assert isinstance(found, Pair)
        assert found.second == (found.first,)

    def test_operators_by_keywords_alone(self) -> None:
        """Plain functions call the first one otherwise."""
        mm = torch.ops.aten.mm.default
        module = self.returning(
            lambda graph, r: graph.call_function(mm, (), {"self": r, "mat2": graph.get_attr("weight")})
        )
        torch.testing.assert_close(module(X), want() @ WEIGHT)

    def test_inputs_with_defaults_and_other_names(self) -> None:
        module = made()
        first = module.graph.find_nodes(op="placeholder")[0]
        with module.graph.inserting_after(first):
            added = module.graph.placeholder("len", default_value=float("inf"))
        (output,) = module.graph.find_nodes(op="output")
        output.args = ((*output.args[0], added),)
        module.recompile()
        assert module(X)[1] == float("inf")
        assert module(X, len=3)[1] == 3


class TestTorchsText:
    """Torch writes the text if more than a callable function is requested."""

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
        assert named["_mm_out(x, turned, out=matmul)"] == "mm_out"
        assert named["return (sum_1,)"] == "output"

    def test_a_failing_line_is_shown(self, capsys: pytest.CaptureFixture[str]) -> None:
        module = fx_converter.convert(
            artifact(), FxOptions(guarded=ir.Guarded(params=frozenset({"x"})), convention="flat")
        )
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            module(torch.ones(4, 5))
        assert "_mm_out(x, turned, out=matmul)" in capsys.readouterr().err

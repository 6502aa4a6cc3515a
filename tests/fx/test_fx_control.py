"""Control flow in FX graphs, from short IR text: torch's higher-order operators over submodules, and their
results.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import ADD, HEADER, KERNELS, RELU, find_runtime
from torch import Tensor, fx

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from py_wrapper import TORCH_MACHINE
from tests.common.compare import assert_same
from tests.common.forms import both_forms
from tests.fx.fx_cases import stored
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import ExecutionError


def graph(text: str, form: KernelCalls, **constants: Tensor) -> fx.GraphModule:
    """The text's graph, read from a file."""
    program = wrapper_ir.parse_program(HEADER + text)
    wrapper_ir.verify(program)
    data = {name: TORCH_MACHINE.data(value) for name, value in constants.items()}
    options = FxOptions(kernel_calls=form, find_runtime=find_runtime)
    converted = fx_converter.convert(stored(bare_artifact(program, data)), options)
    with TemporaryDirectory() as folder:
        fx_converter.save(converted, Path(folder, "graph.wir"))
        module = fx_converter.load(Path(folder, "graph.wir"), options)
    assert str(module.graph) == str(converted.graph)
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            part.graph.lint()
            assert all("val" in n.meta for n in part.graph.nodes)
    return module


def operator(module: fx.GraphModule) -> fx.Node:
    """The one higher-order operator."""
    found: fx.Node
    (found,) = (n for n in module.graph.nodes if isinstance(n.target, torch._ops.HigherOrderOperator))
    return found


def inputs(module: fx.GraphModule, name: str) -> list[str]:
    return [n.name for n in module.get_submodule(name).graph.nodes if n.op == "placeholder"]  # type: ignore[union-attr]  # torch's own


@both_forms
def test_branches_without_inputs(form: KernelCalls) -> None:
    text = (
        KERNELS
        + "func @main(%p: bool[]) {\n  %y = cond %p then @ones else @twos () : f32[3]\n  return %y\n}\n"
    )
    for name, steps in (("ones", 1), ("twos", 2)):
        text += f"func @{name}() {{\n  %y = alloc f32[3] zero(call)\n" + "  launch @increment(%y)\n" * steps
        text += "  return %y\n}\n"
    module = graph(text, form)
    assert operator(module).args[3] == ()
    assert inputs(module, "ones") == inputs(module, "twos") == []
    for p, want in ((True, 1.0), (False, 2.0)):
        assert_same(module(torch.tensor(p)), (torch.full((3,), want),))


@both_forms
def test_branches_of_constants_alone(form: KernelCalls) -> None:
    text = "const %a : f32[3]\nconst %b : f32[3]\n"
    text += "func @main(%n: int) {\n  define s0 = item(%n)\n"
    text += "  %y = cond s0 > 4 then @first else @second () : f32[3]\n  return %y\n}\n"
    for name, constant in (("first", "a"), ("second", "b")):
        text += f"func @{name}() {{\n  %y = alloc f32[3]\n  copy %y, %{constant}\n  return %y\n}}\n"
    a, b = torch.randn(3), torch.randn(3)
    module = graph(text, form, a=a, b=b)
    assert_same(module(9), (a,))
    assert_same(module(2), (b,))


@both_forms
def test_a_subgraph_without_inputs(form: KernelCalls) -> None:
    text = "const %a : f32[3]\nfunc @main() {\n  %y = call_subgraph @copied() : f32[3]\n  return %y\n}\n"
    text += "func @copied() {\n  %y = alloc f32[3]\n  copy %y, %a\n  return %y\n}\n"
    a = torch.randn(3)
    module = graph(text, form, a=a)
    assert operator(module).target is torch.ops.higher_order.invoke_subgraph
    assert_same(module(), (a,))


@both_forms
def test_inputs_of_branches_have_shapes_of_their_own(form: KernelCalls) -> None:
    """The branch reads shapes from its inputs, under symbols that the caller does not know."""
    text = RELU + KERNELS + "func @main(%p: bool[], %x: f32[s0, 4]) {\n  define s0 = size(%x, 0)\n"
    text += "  %v = view %x : f32[2, 4]\n  %r = cond %p then @double_it else @relu_it (%v, %x) : f32[2, 4]\n"
    text += "  return %r\n}\n"
    text += "func @double_it(%x: f32[s1, 4], %w: f32[u0, 4]) {\n  define s1 = size(%x, 0)\n  define u0 = size(%w, 0)\n"
    text += "  %y = alloc f32[2, 4]\n  launch @double(%w, %y, s1*4)\n  return %y\n}\n"
    text += "func @relu_it(%x: f32[2, 4], %w: f32[s1, 4]) {\n  %y = call aten::relu(%x) : f32[2, 4]\n  return %y\n}\n"
    module = graph(text, form)
    shapes = [
        str(n.meta["val"].shape)
        for n in module.get_submodule("double_it").graph.nodes  # type: ignore[union-attr]  # torch's own
        if n.op == "placeholder"
    ]
    assert shapes == ["torch.Size([s1, 4])", "torch.Size([u0, 4])"]
    x = torch.randn(5, 4)
    assert_same(module(torch.tensor(True), x), (x[:2] * 2,))
    assert_same(module(torch.tensor(False), x), (x[:2].relu(),))


@both_forms
def test_symbols_of_the_closure_are_inputs_of_all_branches(form: KernelCalls) -> None:
    """Also of the branch that does not use them, and of loops."""
    text = ADD + 'extern "aten::lt.Scalar(Tensor self, Scalar other) -> Tensor"\n'
    text += (
        "func @main(%i: i64[], %x: f32[s0], %n: int) {\n  define s0 = size(%x, 0)\n  define s1 = item(%n)\n"
    )
    text += "  %j, %y = while @test do @body carried(%i, %x) : i64[], f32[s0]\n  return %j, %y\n}\n"
    text += "func @test(%i: i64[], %x: f32[s0]) captures(s0, s1) {\n"
    text += "  %go = call aten::lt.Scalar(%i, s1) : bool[]\n  return %go\n}\n"
    text += (
        "func @body(%i: i64[], %x: f32[s0]) captures(s0) {\n  %j = call aten::add.Tensor(%i, s0) : i64[]\n"
    )
    text += "  %y = call aten::add.Tensor(%x, %x) : f32[s0]\n  return %j, %y\n}\n"
    module = graph(text, form)
    assert inputs(module, "test") == inputs(module, "body") == ["i", "x", "s0", "s1"]
    assert [str(a) for a in operator(module).args[3]] == ["s0", "n"]  # type: ignore[union-attr]  # a tuple of nodes
    x = torch.randn(4)
    assert_same(module(torch.tensor(0), x, 7), (torch.tensor(8), x * 4))


@both_forms
def test_numbers_are_carried_and_returned(form: KernelCalls) -> None:
    """Numbers that a loop carries without a symbol have none of the program's.

    Its results have separate ones.
    """
    text = (
        ADD
        + "func @main(%n: int, %x: f32[4]) {\n  %k, %y = while @test do @body carried(%n, %x) : int, f32[4]\n"
    )
    text += "  define u0 = item(%k)\n  %z = alloc f32[u0] zero(call)\n  return u0*2, %y, %z\n}\n"
    text += "func @test(%n: int, %x: f32[4]) {\n  define s0 = item(%n)\n  return s0 < 5\n}\n"
    text += "func @body(%n: int, %x: f32[4]) {\n  define s0 = item(%n)\n"
    text += "  %y = call aten::add.Tensor(%x, %x) : f32[4]\n  return s0 + 1, %y\n}\n"
    module = graph(text, form)
    vals = {n.name: str(n.meta["val"]) for n in module.graph.nodes}
    assert vals["n"] not in ("s0", "s1", "u0")
    assert (vals["k"], vals["mul"]) == ("u0", "2*u0")
    x = torch.randn(4)
    assert_same(module(2, x), (10, x * 8, torch.zeros(5)))
    assert_same(module(9, x), (18, x, torch.zeros(9)))


@both_forms
def test_branches_return_numbers(form: KernelCalls) -> None:
    text = "func @main(%p: bool[], %n: int) {\n  define s0 = item(%n)\n"
    text += "  %a = cond %p then @one else @two (s0) : int\n  define u0 = item(%a)\n  return u0 // 2\n}\n"
    text += "func @one(%n: int) {\n  define s0 = item(%n)\n  return s0 + 1\n}\n"
    text += "func @two(%n: int) {\n  define s0 = item(%n)\n  return s0 * 2\n}\n"
    module = graph(text, form)
    assert module(torch.tensor(True), 6) == (3,)
    assert module(torch.tensor(False), 6) == (6,)


@both_forms
def test_numbers_of_stacked_loops_are_the_last_trips(form: KernelCalls) -> None:
    """Torch's operator for stacked loops carries tensors only."""
    text = (
        ADD
        + "func @main(%n: int, %x: f32[4]) {\n  %k, %y = while @test do @body carried(%n, %x) stacked : int, f32[u0, 4]\n"
    )
    text += "  define u0 = size(%y, 0)\n  define s1 = item(%k)\n  return s1, %y\n}\n"
    text += "func @test(%n: int, %x: f32[4]) {\n  define s0 = item(%n)\n  return s0 < 5\n}\n"
    text += "func @body(%n: int, %x: f32[4]) {\n  define s0 = item(%n)\n"
    text += "  %y = call aten::add.Tensor(%x, %x) : f32[4]\n  return s0 + 1, %y\n}\n"
    module = graph(text, form)
    x = torch.randn(4)
    assert_same(module(3, x), (5, torch.stack([x * 2, x * 4])))
    assert_same(module(9, x), (9, x[None]))


SWITCH = (
    RELU
    + """
func @main(%i: i64[], %x: f32[4]) {
  %y = switch %i [@relu_it, @same] (%x) : f32[4]
  return %y
}
func @relu_it(%x: f32[4]) {
  %y = call aten::relu(%x) : f32[4]
  return %y
}
func @same(%x: f32[4]) {
  %y = alloc f32[4]
  copy %y, %x
  return %y
}
"""
)


@both_forms
def test_an_index_outside_of_the_branches_is_an_error(form: KernelCalls) -> None:
    """In a graph and in Python; one below the first branch too."""
    artifact = bare_artifact(wrapper_ir.parse_program(HEADER + SWITCH))
    compiled = py_wrapper.compile(artifact)
    module = graph(SWITCH, form)
    x = torch.tensor([-1.0, 2.0, -3.0, 4.0])
    runs: tuple[Callable[..., Any], ...] = (module, compiled)  # Any: results of any program
    for run in runs:
        assert_same(run(torch.tensor(0), x), (x.relu(),))
        assert_same(run(torch.tensor(1), x), (x,))
        for index in (-1, 2):
            with pytest.raises(ExecutionError, match=f"WIR932.*2 branches is given index {index}"):
                run(torch.tensor(index), x)

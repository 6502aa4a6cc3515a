"""Choices among kernels, and tensor descriptors, in FX graphs: calls, and results in Triton's interpreter."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from tests.common.choices import DESCRIBED, choosing, program
from tests.common.compare import assert_same
from tests.common.forms import both_forms
from wrapper_ir.artifact import Artifact

pytest.importorskip("triton", reason="the kernels are Triton's")

from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation

from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.choose import ChoiceOptions, Pick


def graph(artifact: Artifact, form: KernelCalls, **choice: Any) -> tuple[fx.GraphModule, list[Pick]]:
    """Returns the graph, and the list in which its launches record choices. Any: fields of ChoiceOptions."""
    picks: list[Pick] = []
    options = TritonOptions(choice=ChoiceOptions(stored=False, picked=picks.append, **choice))
    runtime = TritonRuntime(options=options)
    return fx_converter.convert(
        artifact, FxOptions(kernel_calls=form, find_runtime=lambda kind: runtime)
    ), picks


def launched(module: fx.GraphModule) -> Any:  # Any: torch types a node's arguments widely
    (node,) = (n for n in module.graph.nodes if "kernel" in n.meta)
    return node


@pytest.mark.parametrize("force", [0, 1])
def test_each_kernel_of_several_is_called(force: int) -> None:
    """The kernel that needs a workspace and numbers for its grid, and the one that does not.

    An operator of the form `hop` keeps the runtime of its registration, and thus that runtime's choices.
    """
    module, picks = graph(program(choosing(by_sizes=False)), "direct", force=force)
    x = torch.randn(77)
    assert_same(module(x), (x * 2,))
    assert [(p.index, p.why) for p in picks] == [(force, "forced")]


@both_forms
def test_on_the_cpu_a_choice_is_one_call(form: KernelCalls, tmp_path: Path) -> None:
    """Of all arguments, the workspace among them, which no node zeroes twice."""
    module, _ = graph(program(choosing(by_sizes=False)), form, measure=False)
    module.graph.lint()
    node = launched(module)
    assert [str(arg) for arg in node.args] == ["x", "out", "s0", "ws", "floordiv"]
    assert (node.meta["kernel"], len(node.meta["kernel_hash"])) == ("either", 64)
    called = [str(getattr(n.target, "__name__", "")) for n in module.graph.nodes]
    assert called.count("zero_.default") == 1
    fx_converter.save(module, tmp_path / "graph.wir")
    again = fx_converter.load(tmp_path / "graph.wir", FxOptions(kernel_calls=form))
    x = torch.randn(50)
    for way in (module, again):
        assert_same(way(x), (x * 2,))


@both_forms
def test_sizes_choose_in_each_call(form: KernelCalls) -> None:
    module, picks = graph(program(choosing(by_sizes=True)), form)
    for rows in (20, 1000):
        x = torch.randn(rows)
        assert_same(module(x), (x * 2,))
    if form == "direct":
        assert [(p.index, p.why) for p in picks] == [(1, "sizes"), (0, "sizes")]


def test_on_a_device_torchs_form_has_the_first_kernel(tmp_path: Path) -> None:
    """With its own arguments and its own grid alone; a file keeps the choice among all."""
    module = fx_converter.convert(program(choosing(by_sizes=False), "cuda:0"), FxOptions(kernel_calls="hop"))
    node = launched(module)
    assert node.target is triton_kernel_wrapper_mutation
    assert {k: str(v) for k, v in node.kwargs["kwargs"].items()} == {"x": "x", "out": "out", "n": "s0"}
    entered: Any = kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
    assert entered.fn.__name__ == "whole"
    assert str(node.kwargs["grid"][0][0].meta["val"]) == "((s0 + 63)//64)"
    fx_converter.save(module, tmp_path / "graph.wir")
    again = fx_converter.load(tmp_path / "graph.wir", FxOptions(kernel_calls="hop"))
    assert str(again.graph) == str(module.graph)
    assert len(wrapper_ir.load(tmp_path / "graph.wir").program.kernels) == 3


def test_on_a_device_the_first_kernel_has_its_part_of_the_arguments() -> None:
    text = choosing(by_sizes=False)
    first, second = (line for line in text.splitlines(True) if line.startswith("    @"))
    swapped = text.replace(first + second, second + first)
    node = launched(fx_converter.convert(program(swapped, "cuda:0"), FxOptions(kernel_calls="hop")))
    assert list(node.kwargs["kwargs"]) == ["x", "out", "n", "ws"]
    assert str(node.kwargs["grid"][0][0].meta["val"]) == "((s0 + 15)//16)"


def test_on_a_device_sizes_choose_in_an_operator() -> None:
    """The operator represents all of the kernels."""
    artifact = program(choosing(by_sizes=True), "cuda:0")

    class Absent:
        """A runtime whose kernels are never launched."""

        kind = "triton"

        def load(self, kernel: Any, target: Any) -> Any:
            return lambda *args: None

        def load_all(self, kernels: Any, target: Any) -> dict[str, Any]:
            return {k.name: self.load(k, target) for k in kernels}

    options = FxOptions(kernel_calls="hop", find_runtime=lambda kind: Absent())
    node = launched(fx_converter.convert(artifact, options))
    assert node.target.namespace == "wrapper_ir_kernels"
    assert str(node.target).startswith("wrapper_ir_kernels.multi_")
    assert [str(arg) for arg in node.args] == ["x", "out", "s0", "ws", "floordiv"]


@both_forms
def test_descriptors_are_tensors_of_the_call(form: KernelCalls) -> None:
    module = fx_converter.convert(program(DESCRIBED), FxOptions(kernel_calls=form))
    assert [str(arg) for arg in launched(module).args] == ["x", "out", "floordiv", "3"]
    for rows in (64, 40):
        x = torch.randn(rows, 48)
        assert_same(module(x), (x * 2,))


def test_on_a_device_descriptors_are_in_torchs_own_form() -> None:
    """Blocks as numbers, those of a config's parameters too."""
    module = fx_converter.convert(program(DESCRIBED, "cuda:0"), FxOptions(kernel_calls="hop"))
    node = launched(module)
    assert node.kwargs["tma_descriptor_metadata"] == {
        "x": ("stable", ([32, 16],)),
        "out": ("stable", ([32, 16],)),
    }
    assert {k: str(v) for k, v in node.kwargs["kwargs"].items()} == {"x": "x", "out": "out"}


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def on_this_device(body: str) -> Artifact:
    major, minor = torch.cuda.get_device_capability()
    artifact = program(body, "cuda:0")
    target = dataclasses.replace(artifact.program.target, arch=f"sm_{major}{minor}")
    return dataclasses.replace(artifact, program=dataclasses.replace(artifact.program, target=target))


@pytest.mark.gpu
@needs_gpu
@both_forms
@pytest.mark.parametrize("by_sizes", [False, True])
def test_choices_on_a_device(form: KernelCalls, by_sizes: bool, tmp_path: Path) -> None:
    options = FxOptions(kernel_calls=form)
    module = fx_converter.convert(on_this_device(choosing(by_sizes)), options)
    fx_converter.save(module, tmp_path / "graph.wir")
    for way in (module, fx_converter.load(tmp_path / "graph.wir", options)):
        for rows in (20, 77, 1000):
            x = torch.randn(rows, device="cuda")
            assert_same(way(x), (x * 2,))


@pytest.mark.gpu
@needs_gpu
@both_forms
def test_descriptors_on_a_device(form: KernelCalls) -> None:
    module = fx_converter.convert(on_this_device(DESCRIBED), FxOptions(kernel_calls=form))
    for rows in (64, 40):
        x = torch.randn(rows, 48, device="cuda")
        assert_same(module(x), (x * 2,))

"""The operator policy applies to every node of a saved graph: a file may contain nodes that no converter
wrote.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.errors import SavedGraphError
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import ExecutionError, NotSupportedError
from wrapper_ir.operators.policy import OperatorPolicy

HEAD = """
wir 0.5
target cpu

"""
RELU = """
extern "aten::relu(Tensor self) -> Tensor"

func @main(%x: f32[4]) {
  %y = call aten::relu(%x) : f32[4]
  return %y
}
"""
BRANCHES = """
extern "aten::relu(Tensor self) -> Tensor"

func @main(%x: f32[4], %go: bool[]) {
  %y = cond %go then @then else @other (%x) : f32[4]
  return %y
}

func @then(%p: f32[4]) {
  %y = call aten::relu(%p) : f32[4]
  return %y
}

func @other(%p: f32[4]) {
  %y = call aten::relu(%p) : f32[4]
  return %y
}
"""
X = torch.ones(4)


def artifact(text: str) -> Artifact:
    """The artifact of a program."""
    return bare_artifact(wrapper_ir.parse_program(HEAD + text))


# Any below: JSON
def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> Path:
    """A saved graph whose nodes were changed, sealed again."""
    made = wrapper_ir.load(path)
    (name,) = [name for name in made.extensions if name.startswith("fx")]
    graph = json.loads(made.extensions[name])
    change(graph["graphs"][-1]["nodes"])
    other = path.with_name("other.wir")
    wrapper_ir.save(dataclasses.replace(made, extensions={name: json.dumps(graph)}), other)
    return other


@pytest.mark.parametrize("name", ["wrap", "print", "call_torchbind", "map_impl", "with_effects"])
def test_higher_order_nodes_of_saved_graphs(tmp_path: Path, name: str) -> None:
    path = tmp_path / "graph.wir"
    fx_converter.save(fx_converter.convert(artifact(RELU)), path)

    def change(nodes: list[dict[str, Any]]) -> None:
        relu = next(node for node in nodes if "operator" in node["target"])
        relu["target"] = {"higher_order": name}

    other = rewritten(path, change)
    for policy in (OperatorPolicy(), OperatorPolicy(only=("aten::*",))):
        with pytest.raises(NotSupportedError, match=f"WIR917.*higher_order::{name}"):
            fx_converter.load(other, FxOptions(operators=policy))


def test_control_flow_of_saved_graphs_is_the_programs_own(tmp_path: Path) -> None:
    path = tmp_path / "graph.wir"
    fx_converter.save(fx_converter.convert(artifact(BRANCHES), FxOptions(kernel_calls="hop")), path)
    loaded = fx_converter.load(path, FxOptions(operators=OperatorPolicy(only=("aten::*",))))
    assert loaded(X, torch.tensor(True))[0].eq(1).all()


REBINDING: dict[str, tuple[list[Any], str]] = {
    "aten::as_strided_.default": (["x", [8], [1], 0], "aten::as_strided_"),
    "inductor::resize_storage_bytes_.default": (["x", 0], "resize_storage_bytes_"),
    "inductor::_reinterpret_tensor.default": (["x", [8], [1], 0], "_reinterpret_tensor"),
    "inductor::_alloc_from_pool.default": (["x", 0, {"torch": "float32"}, [8], [1]], "_alloc_from_pool"),
    "aten::set_.default": (["x"], "aten::set_"),
}


def _relu_as(target: dict[str, str], args: list[Any]) -> Callable[[list[dict[str, Any]]], None]:
    """Inserts a call of another target before the node of `RELU`, which reads its result."""

    def change(nodes: list[dict[str, Any]]) -> None:
        at = next(n for n, node in enumerate(nodes) if "operator" in node["target"])
        (given,) = nodes[at]["args"]
        made = [given if arg == "x" else {"tuple": arg} if isinstance(arg, list) else arg for arg in args]
        new = {"op": "call_function", "name": "new", "target": target, "args": made, "kwargs": {}, "meta": {}}
        nodes[at]["args"] = [{"node": "new"}]
        nodes.insert(at, new)

    return change


@pytest.mark.parametrize("name", REBINDING)
def test_operators_of_saved_graphs_that_replace_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / "graph.wir"
    fx_converter.save(fx_converter.convert(artifact(RELU)), path)
    args, shown = REBINDING[name]
    with pytest.raises(SavedGraphError, match=rf"FX205.*{shown}"):
        fx_converter.load(rewritten(path, _relu_as({"operator": name}, args)))
    inside = [{"operator": name}, *args]
    with pytest.raises((SavedGraphError, NotSupportedError), match=r"FX205|WIR917"):
        fx_converter.load(rewritten(path, _relu_as({"operator": "aten::relu.default"}, inside)))


WINDOWS = {
    "fast.view": [[(4,), (1,), 0], [(2,), (1,), 2], [(2, 2), (2, 1), 0], [(0,), (1,), 9]],
    "targets.window": [[{"torch": "float32"}, (4,), (1,), 0], [{"torch": "int8"}, (16,), (1,), 0]],
}
OUTSIDE = {
    "fast.view": [[(5,), (1,), 0], [(4,), (1,), 1], [(2, 2), (4, 1), 0], [(1,), (1,), -1], [(2,), (-1,), 1]],
    "targets.window": [[{"torch": "float64"}, (4,), (1,), 0], [{"torch": "float32"}, (1,), (1,), 16]],
}


@pytest.mark.parametrize("function", WINDOWS)
def test_windows_of_saved_graphs(tmp_path: Path, function: str) -> None:
    path = tmp_path / "graph.wir"
    fx_converter.save(fx_converter.convert(artifact(RELU)), path)

    def load(args: list[Any]) -> Any:
        made = [list(arg) if isinstance(arg, tuple) else arg for arg in args]
        return fx_converter.load(rewritten(path, _relu_as({"function": function}, ["x", *made])))

    for args in WINDOWS[function]:
        load(args)
    for args in OUTSIDE[function]:
        with pytest.raises(SavedGraphError, match="FX205"):
            load(args)


SET = """
func @main(%x: f32[4], %y: f32[4]) {
  set_storage %x, %y
  drop %x
  drop %y
  return
}
"""


def test_a_storage_that_is_set_has_the_layout_of_its_target(tmp_path: Path) -> None:
    path = tmp_path / "graph.wir"
    fx_converter.save(fx_converter.convert(artifact(SET)), path)

    def without_checks(nodes: list[dict[str, Any]]) -> None:
        nodes[:] = [node for node in nodes if node["target"] != {"function": "targets.check_inputs"}]
        setting = next(node for node in nodes if node["target"] == {"function": "targets.set_storage"})
        setting["target"] = {"operator": "aten::set_.source_Tensor"}

    for file in (path, rewritten(path, without_checks)):
        x, y = torch.ones(4), torch.zeros(4)
        fx_converter.load(file)(x, y)
        assert x.data_ptr() == y.data_ptr()
    with pytest.raises(ExecutionError, match="WIR927"):
        fx_converter.load(rewritten(path, without_checks))(torch.ones(4), torch.ones(3))


def test_a_graph_that_replaces_memory_is_not_saved(tmp_path: Path) -> None:
    module = fx_converter.convert(artifact(RELU))
    (relu,) = (node for node in module.graph.nodes if node.target is torch.ops.aten.relu.default)
    with module.graph.inserting_before(relu):
        module.graph.call_function(torch.ops.aten.as_strided_.default, (relu.args[0], [8], [1]))
    with pytest.raises(SavedGraphError, match=r"FX205.*aten::as_strided_.*node as_strided_"):
        fx_converter.save(module, tmp_path / "graph.wir")

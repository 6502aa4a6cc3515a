"""Every node of a saved graph is asked whether it may be called: a file may name what no converter wrote."""

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
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.operators.policy import OperatorPolicy

HEAD = """
wir 0.3
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

"""Metadata of FX graphs held against a run: each node's fake value is what the node gives, names are the program's."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from packages.py_wrapper.tests.py_case import Case, artifact_of, find_runtime
from packages.py_wrapper.tests.py_programs import CASES
from torch import SymBool, SymFloat, SymInt, Tensor, fx

import fx_converter
from fx_converter import FxOptions
from fx_converter.options import KernelCalls
from wrapper_ir.artifact import Artifact
from wrapper_ir.structure import results
from wrapper_ir.types import StorageType

FORMS: tuple[KernelCalls, ...] = ("direct", "hop")
both_forms = pytest.mark.parametrize("form", FORMS)
every_case = pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
Symbolic = SymInt | SymFloat | SymBool


class Recorder(fx.Interpreter):
    """Holds each node's fake value against what the node gives: layouts, devices and numbers, as far as their symbols have
    been seen. Every tensor and number has one."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.symbols: dict[Any, Any] = {}
        self.checked: list[str] = []

    def run_node(self, n: fx.Node) -> Any:  # Any: what nodes give
        got = super().run_node(n)
        if n.op != "output":
            assert n.meta["val"] is not None or not isinstance(got, Tensor | bool | int | float), n
            self.compare(n, n.meta["val"], got)
        return got

    def compare(self, node: fx.Node, val: Any, got: Any) -> None:
        """One value, or several in structure."""
        if isinstance(val, Tensor):
            assert isinstance(got, Tensor), node
            assert (val.dtype, val.device, val.dim()) == (got.dtype, got.device, got.dim()), node
            said = [*val.shape, *(s for n, s in zip(got.shape, val.stride()) if n > 1)]
            real = [*got.shape, *(s for n, s in zip(got.shape, got.stride()) if n > 1)]
            for number, seen in zip(said, real, strict=True):
                self.number(node, number, seen)
        elif isinstance(val, list | tuple) and isinstance(got, list | tuple):
            for one, other in zip(val, got, strict=True):
                self.compare(node, one, other)
        elif isinstance(val, bool | int | float | Symbolic):
            self.number(node, val, got)

    def number(self, node: fx.Node, val: Any, got: Any) -> None:
        """A symbol has the value of its first appearance from then on."""
        if not isinstance(val, Symbolic):
            assert val == got, node
            return
        expr = val.node.expr
        if expr.is_Symbol and expr not in self.symbols:
            self.symbols[expr] = sympy.sympify(got)
        known = expr.xreplace(self.symbols)
        if not known.free_symbols:
            self.checked.append(node.name)
            assert type(got)(known) == pytest.approx(got), node


def flat(artifact: Artifact, form: KernelCalls) -> fx.GraphModule:
    options = FxOptions(kernel_calls=form, find_runtime=find_runtime, convention="flat")
    return fx_converter.convert(artifact, options)


@both_forms
@every_case
def test_fake_values_are_what_nodes_give(case: Case, form: KernelCalls) -> None:
    module = flat(artifact_of(case), form)
    recorder = Recorder(module)
    recorder.run(*case.inputs())
    if case.program.symbols and "%x: f32[s0" in case.text:
        assert recorder.checked


@both_forms
@every_case
def test_every_value_and_symbol_is_a_node(case: Case, form: KernelCalls) -> None:
    """Under its own name where Python allows that. A storage with one view is that view; a name that ends is no node."""
    artifact = artifact_of(case)
    module = flat(artifact, form)
    said = [n.meta.get("value", n.meta.get("symbol")) for n in module.graph.nodes]
    for op in artifact.program.main.body:
        for value in results(op):
            if not isinstance(value.type, StorageType):
                assert value.name in said
    for node in module.graph.nodes:
        name = node.meta.get("value", node.meta.get("symbol"))
        if name is not None and name.isidentifier():
            assert node.name in (name, f"_{name}", f"{name}_1"), (node.name, name)

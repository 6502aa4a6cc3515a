"""Metadata of FX graphs compared with a run: each node's fake value equals its result, names are the
program's.
"""

from __future__ import annotations

import pytest
from packages.py_wrapper.tests.py_case import Case, artifact_of, find_runtime
from packages.py_wrapper.tests.py_programs import CASES
from torch import fx

import fx_converter
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from tests.common.forms import both_forms
from tests.fx.fx_values import Recorder
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact

every_case = pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])


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
    """Under its own name where Python allows that.

    A storage with one view is that view; a name that ends is not a node.
    """
    artifact = artifact_of(case)
    module = flat(artifact, form)
    said = [n.meta.get("value", n.meta.get("symbol")) for n in module.graph.nodes]
    for op in artifact.program.main.body:
        for value in ir.results(op):
            if not isinstance(value.type, ir.StorageType):
                assert value.name in said
    for node in module.graph.nodes:
        name = node.meta.get("value", node.meta.get("symbol"))
        if name is not None and name.isidentifier():
            assert node.name in (name, f"_{name}", f"{name}_", f"{name}_1"), (node.name, name)

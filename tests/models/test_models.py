"""Real models: captured, verified, stored as text and JSON, interpreted and emitted, equal to eager."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import fx

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter.kernels import KernelCalls
from py_wrapper import PyOptions
from tests.common.compare import assert_same, clone_tree
from tests.common.zoo import ZOO
from tests.fx.fx_values import Recorder
from tests.models.model_cases import artifact_of, calls_of, case_of
from wrapper_ir.artifact import Artifact
from wrapper_ir_runtime import Convention
from wrapper_ir_runtime.interp import call

MODELS = sorted(ZOO)


@pytest.mark.slow
# The scope sorts the tests by model, so that each is captured once and not once a test.
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"], scope="class")
@pytest.mark.parametrize("name", MODELS, scope="class")
class TestModel:
    def test_round_trips(self, name: str, dynamic: bool) -> None:
        program = artifact_of(name, dynamic).program
        wrapper_ir.verify(program)
        text = wrapper_ir.print_program(program)
        assert wrapper_ir.parse_program(text) == program
        assert wrapper_ir.from_json(wrapper_ir.to_json(program)) == program

    def test_interpreter(self, name: str, dynamic: bool) -> None:
        case, artifact = case_of(name), artifact_of(name, dynamic)
        for args, kwargs in calls_of(case, dynamic):
            with torch.no_grad():
                want = case.model(*clone_tree(args), **clone_tree(kwargs))
            got = call(artifact, py_wrapper.TORCH_MACHINE, clone_tree(args), clone_tree(kwargs))
            assert_same(got, want)

    def test_python(self, name: str, dynamic: bool) -> None:
        case = case_of(name)
        artifact = artifact_of(name, dynamic)
        runs = [py_wrapper.compile(artifact, PyOptions(persistent_buffers=keep)) for keep in (False, True)]
        for args, kwargs in calls_of(case, dynamic):
            with torch.no_grad():
                want = case.model(*clone_tree(args), **clone_tree(kwargs))
            for run in [*runs, *runs]:
                assert_same(run(*clone_tree(args), **clone_tree(kwargs)), want)

    def test_fx(self, name: str, dynamic: bool) -> None:
        """One form with fixed sizes, the other with dynamic ones: each model uses both."""
        self.check_fx(name, dynamic, "hop" if dynamic else "direct")

    @pytest.mark.conformance
    def test_fx_in_the_other_form(self, name: str, dynamic: bool) -> None:
        self.check_fx(name, dynamic, "direct" if dynamic else "hop")

    def check_fx(self, name: str, dynamic: bool, kernel_calls: KernelCalls) -> None:
        case, artifact = case_of(name), artifact_of(name, dynamic)
        options = fx_converter.FxOptions(kernel_calls=kernel_calls)
        module = fx_converter.convert(artifact, options)
        module.graph.lint()
        assert [n for n in module.graph.nodes if "val" not in n.meta] == []
        flat = fx_converter.convert(artifact, dataclasses.replace(options, convention="flat"))
        run = fx_converter.compile(artifact, options)
        for args, kwargs in calls_of(case, dynamic):
            with torch.no_grad():
                want = case.model(*clone_tree(args), **clone_tree(kwargs))
                assert_same(module(*clone_tree(args), **clone_tree(kwargs)), want)
                compare_fake_values(flat, artifact, args, kwargs)
            for _ in range(2):
                assert_same(run(*clone_tree(args), **clone_tree(kwargs)), want)


# Any: the arguments of any model
def compare_fake_values(
    module: fx.GraphModule, artifact: Artifact, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Compares the fake values of a graph's nodes with their results."""
    convention = Convention(artifact.signature, py_wrapper.TORCH_MACHINE.caller)
    Recorder(module).run(*convention.arguments(convention.leaves(clone_tree(args), clone_tree(kwargs))))

"""Torch's passes and ours over the graphs of real models, both forms: equal results, in the model's own
output structure.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import fx
from torch._inductor.constant_folding import constant_fold
from torch.fx.experimental.const_fold import split_const_subgraphs
from torch.fx.passes.shape_prop import ShapeProp
from torch.utils import _pytree as pytree

import fx_converter
import py_wrapper
from fx_converter import FxOptions, passes
from fx_converter.kernels import KernelCalls
from tests.common.compare import assert_same, clone_tree
from tests.common.forms import FORMS
from tests.common.zoo import ZOO
from tests.fx.torch_passes import PASSES, tagged
from tests.models.model_cases import artifact_of, calls_of, case_of
from wrapper_ir_runtime import Convention

QUICK = {"gpt2", "mlp", "moe"}
"""Models whose proof is part of `make test`; all are part of `make conformance`."""
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.conformance) for name in sorted(ZOO)]


def inductors_folding(module: fx.GraphModule) -> fx.GraphModule:
    constant_fold(module)
    return module


def experimental_folding(module: fx.GraphModule) -> fx.GraphModule:
    """Torch calls its result with positional arguments only, so the graph is put into a separate module."""
    found = passes.foldable(module)
    made = split_const_subgraphs(module, skip_folding_node_fn=lambda node: node not in found)
    made.run_folding()
    return passes.with_convention(fx.GraphModule(made, made.graph), module)


ALL: dict[str, Callable[[fx.GraphModule], fx.GraphModule]] = {
    **PASSES,
    "constant_fold": inductors_folding,
    "const_fold": experimental_folding,
    "split_by_tags": tagged,
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", NAMES)
def test_passes(name: str, dynamic: bool, form: KernelCalls) -> None:
    case, artifact = case_of(name), artifact_of(name, dynamic)
    module = fx_converter.convert(artifact, FxOptions(kernel_calls=form))
    changed = {key: run(copy.deepcopy(module)) for key, run in ALL.items()}
    for args, kwargs in calls_of(case, dynamic):
        want = module(*clone_tree(args), **clone_tree(kwargs))
        for key, each in changed.items():
            for _ in range(2):
                got = each(*clone_tree(args), **clone_tree(kwargs))
                assert type(got) is type(want), key
                assert pytree.tree_structure(got) == pytree.tree_structure(want), key
                assert_same(pytree.tree_leaves(got), pytree.tree_leaves(want))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_interpreters(name: str, form: KernelCalls) -> None:
    """`Interpreter` and shape propagation run the graph over flat values."""
    case, artifact = case_of(name), artifact_of(name, True)
    module = fx_converter.convert(artifact, FxOptions(kernel_calls=form))
    flat = fx_converter.convert(artifact, FxOptions(kernel_calls=form, convention="flat"))
    convention = Convention(artifact.signature, py_wrapper.TORCH_MACHINE.caller)
    for args, kwargs in calls_of(case, True):
        want = pytree.tree_leaves(module(*clone_tree(args), **clone_tree(kwargs)))
        for interpreter in (fx.Interpreter(flat), ShapeProp(flat)):
            inputs = convention.arguments(convention.leaves(clone_tree(args), clone_tree(kwargs)))
            with torch.no_grad():
                got = interpreter.run(*inputs)
            for found, wanted in zip([x for x in got if isinstance(x, torch.Tensor)], want):
                assert_same(found, wanted)
    shapes = [
        n.meta["tensor_meta"].shape
        for n in flat.graph.nodes
        if n.op == "placeholder" and "tensor_meta" in n.meta
    ]
    assert shapes

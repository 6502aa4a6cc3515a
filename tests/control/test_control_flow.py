"""Control flow through both sources, run by the interpreter and by emitted Python, against the same in
Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import fx_converter
import inductor_frontend
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from tests.common.compare import assert_same, clone_tree
from tests.control.control_cases import CASES
from tests.control.control_ops import eager, said, traced
from tests.control.control_training import TRAINED
from wrapper_ir import parse_program, print_program
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir_passes import run_pipeline
from wrapper_ir_runtime.interp import call

Run = Callable[..., Any]  # Any: arguments and results of the case


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    # data that a model may read is traced; else torch breaks the graph, or refuses
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def observed(run: Run, args: tuple[Any, ...]) -> Any:
    """Returns the results of a call, its arguments afterwards, and its output, from the same random state."""
    said.clear()
    torch.manual_seed(7)
    mine = clone_tree(args)
    with torch.no_grad():
        return run(*mine), mine, list(said)


def check(run: Run, reference: Run, args: tuple[Any, ...]) -> None:
    assert_same(observed(run, args), observed(reference, args))


FIXED = ["unequal", "branch_in_loop", "twice"]
"""Cases that are also captured for the sizes of their example."""


def runs(source: str) -> list[Any]:
    """(name, dynamic) of the cases that torch can compile from a source."""
    names = [n for n, c in CASES.items() if c.has(source)]
    found = [pytest.param(n, True, id=n) for n in names]
    return found + [pytest.param(n, False, id=f"{n}-fixed") for n in FIXED]


def as_graphs(artifact: Artifact) -> Iterator[Run]:
    """FX graphs in both forms: as a module that is read from a file, and as straight-line code."""
    forms: tuple[KernelCalls, ...] = ("direct", "hop")
    for options in (FxOptions(kernel_calls=form) for form in forms):
        yield fx_converter.compile(artifact, options)
        with TemporaryDirectory() as folder:
            fx_converter.save(fx_converter.convert(artifact, options), Path(folder, "graph.wir"))
            yield fx_converter.load(Path(folder, "graph.wir"), options)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dynamic"), runs("export"))
def test_exported(name: str, dynamic: bool) -> None:
    case = CASES[name]
    shapes = case.dynamic if dynamic else None
    artifact = inductor_frontend.capture(case.make(traced), clone_tree(case.args[0]), dynamic_shapes=shapes)
    assert parse_program(print_program(artifact.program)) == artifact.program
    assert run_pipeline(artifact.program, "move-arguments") == artifact.program
    compiled, reference = emitter("python").compile(artifact), case.make(eager)
    graphs = [(run, case.make(eager)) for run in as_graphs(artifact)]
    for args in case.args if dynamic else case.args[:1]:
        check(compiled, reference, args)
        # every run of the interpreter begins with the captured state
        check(lambda *a: call(artifact, machine("torch"), a), case.make(eager), args)
        for run, unaware in graphs:
            check(run, unaware, args)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dynamic"), runs("compile"))
def test_compiled(name: str, dynamic: bool) -> None:
    case = CASES[name]
    compiled = torch.compile(case.make(traced), backend="wrapper_ir", dynamic=dynamic, fullgraph=True)
    reference = case.make(eager)
    for args in case.args if dynamic else case.args[:1]:
        check(compiled, reference, args)


def gradients(run: Run, *args: Tensor) -> Any:
    """The results, and the gradients of all arguments."""
    leaves = [x.clone().requires_grad_() for x in args]
    results = run(*leaves)
    loss = sum((r * r).sum() for r in pytree.tree_leaves(results))
    loss.backward()
    return results, [x.grad for x in leaves]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_trained(name: str) -> None:
    compiled = torch.compile(TRAINED[name](traced), backend="wrapper_ir", dynamic=True, fullgraph=True)
    for rows in (4, 5):
        args = torch.rand(rows, 3), torch.rand(3, 3) - 0.5
        assert_same(gradients(compiled, *args), gradients(TRAINED[name](eager), *args))

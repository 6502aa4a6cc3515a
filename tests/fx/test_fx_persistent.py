"""FX graphs whose memory persists from call to call: they compute the same, and no call sees another one's
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.persistent_program import PROGRAM, assert_right, assert_threads_are_right
from packages.py_wrapper.tests.py_case import Case, artifact_of
from packages.py_wrapper.tests.stream_program import STREAMS

import fx_converter
from fx_converter import FxOptions
from fx_converter.boxed import boxed_source
from fx_converter.kernels import KernelCalls
from fx_converter.persistent import persistent_nodes
from tests.common.compare import assert_same
from tests.common.forms import both_forms
from tests.fx.fx_cases import every_case, options, wanted
from wrapper_ir import ir, parse_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.memory.persistent_pools import with_persistent_pools


def program() -> Artifact:
    return bare_artifact(parse_program(PROGRAM))


def compiled(form: KernelCalls) -> CompiledProgram:
    return fx_converter.compile(program(), FxOptions(kernel_calls=form, persistent_buffers=True))


def planned(form: KernelCalls) -> CompiledProgram:
    """A planned program whose calls keep tensors but no memory."""
    artifact = bare_artifact(run_pipeline(program().program, "plan-memory{slack=100}"))
    return fx_converter.compile(artifact, FxOptions(kernel_calls=form))


each_way = pytest.mark.parametrize("made", [compiled, planned])
Made = Callable[[KernelCalls], CompiledProgram]


@both_forms
@every_case
def test_the_same_in_every_call(case: Case, form: KernelCalls) -> None:
    run = fx_converter.compile(artifact_of(case), options(form, persistent_buffers=True))
    for _ in range(2 if case.after is None else 1):
        assert_same(run.boxed(case.inputs()), wanted(case))


@both_forms
def test_what_is_persistent(form: KernelCalls) -> None:
    """Storages that the program frees, and windows of them, persist; the call allocates results.

    The pool has the element type of its views, and so has the slot that is filled with zeros: in the form of
    operators all are windows of it.
    """
    given = program().program
    planned = with_persistent_pools(given, Analyses(given))
    module = fx_converter.convert(bare_artifact(planned), FxOptions(kernel_calls=form, convention="flat"))
    persistent = persistent_nodes(module.graph, planned, is_held=True)
    assert persistent is not None
    names = {node.name: block for node, block in persistent.nodes.items()}
    windows = {"pool0_0", "a", "b", "c", "counts_s", "counts", "at", "d", "cd", "total"}
    assert names == {"pool0": 0, "once": 1, **dict.fromkeys(windows)}
    assert [(block.nbytes, block.zero) for block in persistent.blocks] == [(144, False), (16, True)]
    source = boxed_source(module, persistent)[0]
    assert source.count("empty_strided") == 2, source
    assert "_buffer_pool.give(_key, _buffers)\n    return (out, sums)" in source


@each_way
@both_forms
def test_results_are_the_callers(form: KernelCalls, made: Made) -> None:
    run = made(form)
    first = assert_right(run)
    before = [t.clone() for t in first]
    assert_right(run)
    assert all(map(torch.equal, first, before))


@each_way
def test_threads_have_memory_of_their_own(made: Made) -> None:
    assert_threads_are_right(made("direct"))


def test_planned_calls_allocate_pools_and_keep_tensors_over_them() -> None:
    artifact = bare_artifact(run_pipeline(program().program, "plan-memory{slack=100}"))
    module = fx_converter.convert(artifact, FxOptions(convention="flat"))
    persistent = persistent_nodes(module.graph, artifact.program, is_held=False)
    assert persistent is not None
    lines = boxed_source(module, persistent)[0].splitlines()
    resized = [line.split()[0] for line in lines if "resize" in line and "buffers" not in line]
    assert len(resized) == 2 * len(persistent.blocks)
    assert [line.endswith("(0)") for line in resized].count(True) == len(persistent.blocks)
    made = persistent.make()
    tensors = [x for x in made if isinstance(x, torch.Tensor)]
    assert not any(tensor.untyped_storage().nbytes() for tensor in tensors)
    for resize, block in zip(made[len(tensors) :], persistent.blocks, strict=True):
        resize(block.nbytes)
    assert all(tensor.untyped_storage().nbytes() for tensor in tensors)


def test_a_call_that_fails_leaves_the_next_one_right() -> None:
    guarded = ir.Guarded.all_inputs(program().program)  # so that it fails in the middle
    run = fx_converter.compile(program(), FxOptions(persistent_buffers=True, guarded=guarded))
    assert_right(run)
    with pytest.raises(RuntimeError):
        run.boxed([torch.randn(4, 4), torch.randn(5, 4)])
    assert_right(run)


@pytest.mark.parametrize(
    "text",
    [PROGRAM.replace("  free %a.s\n", "  resize_storage %a, 64\n  free %a.s\n"), STREAMS],
    ids=["memory that changes its size", "several streams"],
)
def test_nothing_is_persistent(text: str) -> None:
    artifact = bare_artifact(parse_program(text))
    module = fx_converter.convert(artifact, FxOptions(convention="flat"))
    assert persistent_nodes(module.graph, artifact.program, is_held=True) is None


def test_another_compiler_is_handed_the_graph_as_it_is() -> None:
    seen: list[str] = []

    class Compiler:
        name = "seeing"
        lowerings: Mapping[Any, Any] = MappingProxyType({})  # Any: converters of single ops

        def compile_graph(self, module: torch.fx.GraphModule) -> Any:  # Any: any callable
            seen.extend(str(node.target) for node in module.graph.nodes)
            return module

    options = FxOptions(persistent_buffers=True, compilers={"cpu": Compiler()})
    run = fx_converter.compile(program(), options)
    assert_right(run)
    assert sum("empty_strided" in target for target in seen) == 7

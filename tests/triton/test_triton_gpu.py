"""Models captured for a GPU that need not be there, run on one: emitted Python and the interpreter against
eager.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import fx_converter
import inductor_frontend
import py_wrapper
import wrapper_ir
from fx_converter.kernels import KernelCalls
from py_wrapper import TORCH_MACHINE, PyOptions
from tests.common.zoo import ZOO, Case
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir_runtime.interp import call

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="programs run on a CUDA device, and there is none"
    ),
]
MODELS = ["mlp", "gpt2", "bert", "vit", "lstm", "moe", "resnet", "t5", "llama"]
TOLERANCE = 2e-3
"""Matmuls on the device add up in another order, and eager mode fuses nothing."""


# Any: the arguments and outputs of any model
def on_device(tree: Any) -> Any:
    return pytree.tree_map(lambda x: x.cuda() if isinstance(x, torch.Tensor) else x, tree)


def tensors(outputs: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor)]


def captured(case: Case, *, dynamic: bool = False) -> Artifact:
    """For this device, but without using it."""
    major, minor = torch.cuda.get_device_capability()
    artifact = inductor_frontend.capture(
        case.model,
        case.args,
        case.kwargs,
        dynamic_shapes=case.dynamic if dynamic else None,
        target=f"cuda:sm_{major}{minor}",
    )
    wrapper_ir.verify(artifact)
    return artifact


@pytest.mark.parametrize("name", MODELS)
def test_equals_eager(name: str) -> None:
    case = ZOO[name]()
    artifact = captured(case)
    args, kwargs = on_device(case.args), on_device(case.kwargs or {})
    with torch.no_grad():
        want = tensors(case.model.cuda()(*args, **kwargs))
        emitted = py_wrapper.compile(artifact)
        for outputs in (emitted(*args, **kwargs), call(artifact, TORCH_MACHINE, args, kwargs)):
            got = tensors(outputs)
            assert {x.device for x in got} == {x.device for x in want}
            torch.testing.assert_close(got, want, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", MODELS)
def test_graphs_equal_eager(name: str, dynamic: bool) -> None:
    """FX graphs; in the form `hop` Triton itself compiles and launches the kernels."""
    case = ZOO[name]()
    artifact = captured(case, dynamic=dynamic)
    forms: tuple[KernelCalls, ...] = ("direct", "hop")
    runs = [fx_converter.compile(artifact, fx_converter.FxOptions(kernel_calls=form)) for form in forms]
    calls = [(case.args, case.kwargs or {}), *([case.other] if dynamic and case.other else [])]
    model = case.model.cuda()
    for args, kwargs in map(on_device, calls):
        with torch.no_grad():
            want = tensors(model(*args, **kwargs))
        for run in (*runs, *runs):
            torch.testing.assert_close(tensors(run(*args, **kwargs)), want, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("form", ["direct", "hop"])
def test_graphs_are_tuned_when_they_are_made(form: KernelCalls) -> None:
    """Measured on generated inputs; each kernel has one config then, and the results are eager's."""
    case = ZOO["bert"]()
    artifact = captured(case)
    several = {k for k in artifact.program.kernels if isinstance(k, ir.TritonKernel) and len(k.configs) > 1}
    assert several
    options = fx_converter.FxOptions(kernel_calls=form, tune=fx_converter.KernelTuning())
    module = fx_converter.convert(artifact, options)
    called = {n.meta["kernel_hash"] for n in module.graph.nodes if "kernel" in n.meta}
    assert called.isdisjoint(content_hash(kernel) for kernel in several)
    args, kwargs = on_device(case.args), on_device(case.kwargs or {})
    with torch.no_grad():
        want = tensors(case.model.cuda()(*args, **kwargs))
        torch.testing.assert_close(tensors(module(*args, **kwargs)), want, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("emitter", ["python", "fx"])
@pytest.mark.parametrize("name", ["mlp", "gpt2"])
def test_persistent_buffers_on_streams_and_in_graphs(name: str, emitter: str) -> None:
    """Each stream has separate buffers, and so does a graph, also if it runs between other calls."""
    case = ZOO[name]()
    if emitter == "fx":
        run = fx_converter.compile(captured(case), fx_converter.FxOptions(persistent_buffers=True))
    else:
        run = py_wrapper.compile(captured(case), PyOptions(persistent_buffers=True))
    args, kwargs = on_device(case.args), on_device(case.kwargs or {})
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
    current = torch.cuda.current_stream()
    with torch.no_grad():
        want = tensors(case.model.cuda()(*args, **kwargs))
        side.wait_stream(current)
        results = []
        for stream in (current, side, current, side):
            with torch.cuda.stream(stream):
                results.append(tensors(run(*args, **kwargs)))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results.append(tensors(run(*args, **kwargs)))
        results.append(tensors(run(*args, **kwargs)))
        graph.replay()
        results.append(tensors(run(*args, **kwargs)))
        torch.cuda.synchronize()
        for got in results:
            torch.testing.assert_close(got, want, rtol=TOLERANCE, atol=TOLERANCE)

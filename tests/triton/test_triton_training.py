"""Training with Triton kernels through `torch.compile(backend="wrapper_ir")`: loss, gradients and buffers as
eager's, by Triton's interpreter on CPU tensors and on a device.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.common.compare import assert_same
from tests.common.zoo import Case
from tests.models.training_cases import step, training_case
from wrapper_ir import ir
from wrapper_ir.artifact.file import load

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")

MODELS = ["mlp", "gpt2", "bert", "vit", "lstm", "moe", "convnet", "resnet", "t5", "llama"]
QUICK = ["mlp"]


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    # else recurrent modules stay in eager mode
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def trained(name: str) -> Case:
    """As `training_case`, without the dropout of a model's own configuration."""
    case = training_case(name)
    for module in case.model.modules():
        if isinstance(getattr(module, "dropout", None), float):
            vars(module)["dropout"] = 0.0
    return case


def on_device(case: Case, device: str) -> Case:
    """The case with its model and arguments on a device."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), (case.args, case.kwargs))
    return dataclasses.replace(case, model=case.model.to(device), args=args, kwargs=kwargs)


def assert_trains(case: Case, folder: Path, tolerance: float, **options: str) -> None:
    """Runs two steps: gradients accumulate, and buffers are written twice.

    Compiled functions are in the cache.
    """
    reference = copy.deepcopy(case.model)
    compiled = torch.compile(case.model, backend="wrapper_ir", options={"cache": str(folder), **options})
    for _ in range(2):
        want, got = step(reference, case), step(compiled, case)
        assert_same(got, want, rtol=tolerance, atol=tolerance)
    for (key, a), (_, b) in zip(case.model.named_parameters(), reference.named_parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), key
        if b.grad is not None:
            # of the largest gradient of the layer: sums of another order lose where others cancel
            scale = tolerance * max(1.0, b.grad.abs().max().item())
            torch.testing.assert_close(
                a.grad, b.grad, rtol=tolerance, atol=scale, msg=partial("{}: {}".format, key)
            )
    buffers = (dict(case.model.named_buffers()), dict(reference.named_buffers()))
    assert_same(*buffers, rtol=tolerance, atol=tolerance)
    graphs = [load(path).program for path in folder.rglob("*.wir")]
    kernels = [k for program in graphs for k in program.kernels]
    assert len(graphs) >= 2  # forward and backward
    assert kernels
    assert all(isinstance(k, ir.TritonKernel) for k in kernels)


@pytest.mark.slow
@pytest.mark.parametrize("emitter", ["python", "fx"])
@pytest.mark.parametrize(
    "name", [pytest.param(m, marks=() if m in QUICK else pytest.mark.conformance) for m in MODELS]
)
def test_in_the_interpreter(name: str, emitter: str, tmp_path: Path) -> None:
    assert_trains(trained(name), tmp_path, 1e-3, cpu_kernels="triton", emitter=emitter)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels run on a CUDA device, and there is none")
@pytest.mark.parametrize("emitter", ["python", "fx"])
@pytest.mark.parametrize("name", MODELS)
def test_on_a_device(name: str, emitter: str, tmp_path: Path) -> None:
    assert_trains(on_device(trained(name), "cuda"), tmp_path, 5e-3, emitter=emitter)

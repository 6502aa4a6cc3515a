"""Programs that choose among kernels, over CPU tensors in Triton's interpreter: whichever is chosen, they compute what
eager mode computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import py_wrapper
from inductor_frontend import CaptureOptions, capture
from py_wrapper import PyOptions
from tests import zoo
from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.choose import ChoiceOptions, Pick
from wrapper_ir.artifact import Artifact
from wrapper_ir.kernels import MultiKernel

pytest.importorskip("triton", reason="upstream writes Triton kernels only where triton is installed")

MULTI = CaptureOptions(cpu_kernels="triton", multi_kernels=True)
Model = Callable[..., Any]  # Any: what models return


def running(artifact: Artifact, picks: list[Pick], force: int | None) -> Model:
    """The program as emitted Python, with choices noted in `picks`, or made."""
    choice = ChoiceOptions(force=force, stored=False, picked=picks.append)
    runtime = TritonRuntime(options=TritonOptions(choice=choice))
    return py_wrapper.compile(artifact, PyOptions(find_runtime=lambda kind: runtime))


@pytest.mark.parametrize("force", [0, 1, None], ids=["looped", "persistent", "measured"])
def test_a_softmax(force: int | None) -> None:
    model, x = nn.Softmax(-1), torch.randn(3, 300)
    artifact = capture(model, (x,), options=MULTI)
    picks: list[Pick] = []
    torch.testing.assert_close(running(artifact, picks, force)(x), model(x))
    assert [p.why for p in picks] == ["measured" if force is None else "forced"]
    assert force is None or picks[0].index == force


@pytest.mark.parametrize("force", [0, 1], ids=["looped", "persistent"])
def test_a_transformer(force: int) -> None:
    case = zoo.gpt2(layers=1)
    artifact = capture(case.model, case.args, case.kwargs, options=MULTI)
    assert any(isinstance(k, MultiKernel) for k in artifact.program.kernels)
    picks: list[Pick] = []
    got = running(artifact, picks, force)(*case.args, **(case.kwargs or {}))
    with torch.no_grad():
        want = case.model(*case.args, **(case.kwargs or {}))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert {p.index for p in picks} == {force}

"""The option `persistent_buffers` of the backend: results are the same, and calls allocate only results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from inductor_frontend import CaptureError
from inductor_frontend.backend import BackendOptions
from py_wrapper import PyOptions, PythonEmitter
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram

ROWS = 5


def small_net() -> nn.Module:
    """Two intermediate results of 16 floats a row."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


def bytes_asked_for(run: Callable[[Tensor], object], x: Tensor) -> int:
    """Returns the bytes that a call allocates from torch's CPU allocator."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run(x)
    assert profiler.profiler is not None
    assert profiler.profiler.kineto_results is not None
    events = profiler.profiler.kineto_results.events()
    return sum(e.nbytes() for e in events if e.name() == "[memory]" and e.nbytes() > 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["python", "fx", "cpp"])
@pytest.mark.parametrize("cached", [True, False])
def test_buffers_persist_between_calls(name: str, cached: bool, tmp_path: Path) -> None:
    model = small_net()
    sizes = {}
    with torch.no_grad():
        for keep in (False, True):
            torch._dynamo.reset()
            options: dict[str, Any] = {
                "emitter": name,
                "cache": str(tmp_path) if cached else False,
                "persistent_buffers": keep,
            }
            compiled = torch.compile(model, backend="wrapper_ir", options=options)
            results = []
            for _ in range(3):
                x = torch.randn(ROWS, 8)
                results.append(compiled(x))
                torch.testing.assert_close(results[-1], model(x))
            assert len({r.data_ptr() for r in results}) == 3, "results are the caller's own"
            sizes[keep] = bytes_asked_for(compiled, x)
    assert sizes[False] - sizes[True] == 2 * ROWS * 16 * 4


def test_training() -> None:
    model, trained = small_net().train(), small_net().train()
    compiled = torch.compile(
        trained, backend="wrapper_ir", options={"persistent_buffers": True, "cache": False}
    )
    for _ in range(3):
        x = torch.randn(ROWS, 8)
        for run in (model, compiled):
            torch.autograd.backward(run(x).square().sum())
    for want, got in zip(model.parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad)


@dataclass
class Plain:
    """An emitter that keeps nothing."""

    name: str = "plain"

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        raise NotImplementedError


def test_an_emitter_that_cannot() -> None:
    options: dict[str, Any] = {"emitter": Plain(), "persistent_buffers": True}
    with pytest.raises(CaptureError, match=r"(?s)FE103.*persistent_buffers.*'plain'.*hint: .*'fx'"):
        BackendOptions.parse(options).find_emitter()


def test_an_emitter_with_options_of_its_own() -> None:
    mine = PythonEmitter(options=PyOptions(comments=False))
    result = BackendOptions.parse({"emitter": mine, "persistent_buffers": True}).find_emitter()
    assert result == PythonEmitter(options=PyOptions(comments=False, persistent_buffers=True))


def test_the_value_is_a_bool() -> None:
    with pytest.raises(CaptureError, match=r"(?s)FE103.*'persistent_buffers' is 1.*True or False"):
        BackendOptions.parse({"persistent_buffers": 1})

"""torch.compile(backend="wrapper_ir"): inference, training, dynamic shapes, graph breaks, caches."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

from inductor_frontend import CaptureError, CaptureOptions, capture
from inductor_frontend.backend import calling, wrapper_ir_backend
from inductor_frontend.backend.preparing import prepare_kernels
from inductor_frontend.cache.graph_entry import CompiledGraph
from inductor_frontend.translate.finish import finish
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir.plugins.registry import emitter, kernel_runtime


def small_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.BatchNorm1d(8), nn.Linear(8, 3))


def losses(model: Any, steps: int = 5, batch: int = 4) -> list[float]:  # Any: a module or a compiled callable
    """A few optimizer steps on fixed data."""
    torch.manual_seed(1)
    x, y = torch.randn(batch, 6), torch.randn(batch, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    values = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        optimizer.step()
        values.append(loss.item())
    return values


def test_backend_is_registered() -> None:
    assert "wrapper_ir" in torch._dynamo.list_backends()


def test_equal_views_are_tensors_of_their_own() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        u = (x + 1).view(-1)
        return u, u.permute([0]), u

    for backend in ("inductor", "wrapper_ir"):
        a, b, c = torch.compile(function, backend=backend)(torch.ones(2, 3))
        assert a is c
        assert a is not b
        assert a.data_ptr() == b.data_ptr()


def test_emitters_make_real_tensors() -> None:
    """torch calls compilers while it traces with fake tensors; a kernel loader may need real tensors."""
    python = emitter("python")
    tensors: list[torch.Tensor] = []

    def compile(artifact: Artifact, guarded: ir.Guarded) -> CompiledProgram:
        tensors.append(torch.ones(3))
        return python.compile(artifact, guarded)

    stand_in = SimpleNamespace(name="python", compile=compile)
    graph = CompiledGraph(
        artifact=capture(torch.sin, (torch.ones(2),)), inputs=1, positions=(0,), strides=(), guards=()
    )
    with FakeTensorMode():
        calling.boxed(graph, stand_in)
    assert tensors[0].tolist() == [1.0, 1.0, 1.0]


def test_inference() -> None:
    model = small_net().eval()
    compiled = torch.compile(model, backend="wrapper_ir")
    x = torch.randn(4, 6)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_training_equals_eager() -> None:
    model = small_net()
    compiled = torch.compile(copy.deepcopy(model), backend="wrapper_ir")
    torch.testing.assert_close(losses(compiled), losses(model), rtol=1e-4, atol=1e-5)


def test_saved_activations_are_owned_by_the_backward_program(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[ir.Program] = []

    def record(program: ir.Program, options: CaptureOptions) -> Analyses:
        graph = finish(program, options)
        programs.append(graph.program)
        return graph

    monkeypatch.setattr("inductor_frontend.backend.lowered.finish", record)
    losses(torch.compile(small_net(), backend="wrapper_ir"), steps=1)
    forward, backward = programs
    assert not any(p.ownership is ir.Ownership.OWNED for p in forward.main.params)
    owned = {p.value for p in backward.main.params if p.ownership is ir.Ownership.OWNED}
    assert owned
    ended = {op.storage for op in backward.main.body if isinstance(op, ir.Free)}
    reused = {
        op.source for op in backward.main.body if isinstance(op, ir.View) and op.mode is ir.ViewMode.REUSE
    }
    assert owned <= ended | reused


@pytest.mark.slow
def test_dynamic_batches_compile_once_more() -> None:
    model = small_net()
    counter = CompileCounterWithBackend("wrapper_ir")
    compiled = torch.compile(copy.deepcopy(model), backend=counter)
    for batch in (4, 7, 9, 12):
        torch.testing.assert_close(losses(compiled, 2, batch), losses(model, 2, batch), rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 2


def test_graph_breaks() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(y) + 1

    x = torch.randn(5)
    torch.testing.assert_close(torch.compile(function, backend="wrapper_ir")(x), function(x))


def test_mutated_inputs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x[1:] + 1

    a, b = torch.ones(4), torch.ones(4)
    torch.testing.assert_close(torch.compile(function, backend="wrapper_ir")(a), function(b))
    torch.testing.assert_close(a, b)


def test_number_inputs_and_outputs() -> None:
    def function(x: torch.Tensor, n: int) -> tuple[torch.Tensor, int, None]:
        return x * n, n + x.size(0), None

    compiled = torch.compile(function, backend="wrapper_ir", dynamic=True)
    for n in (3, 4, 5):
        x = torch.randn(n)
        got, want = compiled(x, n), function(x, n)
        torch.testing.assert_close(got[0], want[0])
        assert got[1:] == want[1:]


def test_kernels_are_prepared_for_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime is prepared while the graph is lowered, once for each device type except the host."""
    devices: list[str] = []
    monkeypatch.setattr(
        type(kernel_runtime("triton")), "prepare", lambda runtime, device: devices.append(device)
    )
    compiled = torch.compile(lambda x: x + 1, backend="wrapper_ir", options={"cache": False})
    compiled(torch.zeros(3))
    assert devices == []
    with FakeTensorMode():
        prepare_kernels([torch.empty(2), torch.empty(2, device="cuda"), 3, torch.empty(1, device="cuda")])
    assert devices == ["cuda"]


def test_unknown_options_and_modes_are_refused() -> None:
    x = torch.randn(3)
    with pytest.raises(Exception, match="FE103"):
        torch.compile(torch.sin, backend="wrapper_ir", options={"speed": 11})(x)
    with pytest.raises(CaptureError, match="FE103"):
        wrapper_ir_backend(torch.fx.symbolic_trace(nn.Identity()), [x], mode="fast")


def test_missing_emitter_is_named() -> None:
    x = torch.randn(3)
    with pytest.raises(Exception, match=r"FE401.*nowhere"):
        torch.compile(torch.sin, backend="wrapper_ir", options={"emitter": "nowhere"})(x)


def test_backends_in_one_process() -> None:
    model = small_net().eval()
    x = torch.randn(4, 6)
    with torch.no_grad():
        ours = torch.compile(model, backend="wrapper_ir")(x)
        torch._dynamo.reset()
        stock = torch.compile(model, backend="eager")(x)
    torch.testing.assert_close(ours, stock, rtol=1e-4, atol=1e-5)


def test_inputs_of_forward_are_guarded_and_those_of_backward_are_not(tmp_path: Path) -> None:
    """Dynamo checks the arguments of a compiled function; tangents come from the caller of `backward`."""
    calls: list[tuple[str, ir.Guarded]] = []
    python = emitter("python")

    def compile(artifact: Artifact, guarded: ir.Guarded) -> CompiledProgram:
        calls.append((artifact.program.main.params[-1].value.name, guarded))
        assert guarded in (ir.NOT_GUARDED, ir.Guarded.all_inputs(artifact.program))
        return python.compile(artifact, guarded)

    emitting: Any = SimpleNamespace(
        name="python", compile=compile
    )  # Any: torch types options as plain values
    options: dict[str, Any] = {"emitter": emitting, "cache": str(tmp_path)}
    x = torch.ones(4, 3, requires_grad=True)
    for _ in range(2):  # compiled, and out of the cache
        torch._dynamo.reset()
        function = torch.compile(lambda x: x.sin().exp().sum(1), backend="wrapper_ir", options=options)
        function(x).sum().backward()
        assert [guarded != ir.NOT_GUARDED for _, guarded in calls] == [True, False], calls
        assert calls[1][0].startswith("tangents")
        calls.clear()

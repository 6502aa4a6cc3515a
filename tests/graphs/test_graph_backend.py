"""`mode="reduce-overhead"`: inference and training under torch.compile, on a CPU treated as a device that
captures.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from inductor_frontend.backend import lowered
from py_wrapper import PythonEmitter
from tests.graphs.fake_graphs import FakeGraphs, RerunGraphs, fake_device, let_the_cpu_capture
from tests.graphs.training import LOOPS, train_beside_eager
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.ir.types import _TRAITS
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir.text import print_program


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGraphs]:
    let_the_cpu_capture(monkeypatch)
    monkeypatch.setattr(lowered, "_is_host", lambda device: device.type == "meta")
    torch._dynamo.reset()
    torch.manual_seed(0)
    with fake_device(make=RerunGraphs) as device:
        yield device


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


OPTIONS: dict[str, Any] = {"cuda_graphs": 8, "cache": False, "on_unsupported": "error"}


def test_inference(device: FakeGraphs) -> None:
    """Weights are bound by address, the input is copied.

    A replaced weight is captured anew once its address is stable.
    """
    eager = model()
    compiled = torch.compile(eager, backend="wrapper_ir", mode="reduce-overhead")
    with torch.no_grad():
        for x in torch.randn(4, 3, 8).unbind():
            torch.testing.assert_close(compiled(x), eager(x))
        assert (device.counts["cuda_graphs"], device.counts["replays"], device.counts["copies"]) == (1, 3, 3)
        linear = eager.get_submodule("0")
        assert isinstance(linear, nn.Linear)
        linear.weight.data = torch.randn(16, 8)
        for _ in range(3):
            torch.testing.assert_close(compiled(x), eager(x))
    assert (device.counts["cuda_graphs"], device.counts["replays"]) == (2, 5)


Net = Callable[[Tensor], Tensor]


def train(nets: tuple[Net, Net], x: Tensor, optimizers: list[torch.optim.SGD]) -> Tensor:
    losses: list[Tensor] = []
    for each, optimizer in zip(nets, optimizers):
        optimizer.zero_grad()
        loss = each(x).square().mean()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    torch.testing.assert_close(*losses)
    return losses[0]


@pytest.mark.parametrize("kept", [False, True])
def test_training(device: FakeGraphs, kept: bool) -> None:
    """Tensors that forward saves are bound by address, and never copied."""
    eager = model()
    twin = copy.deepcopy(eager)
    compiled = torch.compile(eager, backend="wrapper_ir", options=OPTIONS)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (eager, twin)]
    losses, inputs = list[Tensor](), [torch.randn(3, 8) for _ in range(4)]
    for step in range(12):
        losses.append(train((compiled, twin), inputs[step % 4], optimizers))
        if not kept:
            losses.clear()
    torch.testing.assert_close([*eager.parameters()], [*twin.parameters()])
    assert device.counts["cuda_graphs"] == 2
    # backward needs two more calls to detect that `x` moves; none if torch saves another tensor instead
    assert device.counts["replays"] in (11 + 9, 11 + 11)
    assert not device.counts["owned"]
    assert (
        device.counts["released"] >= 4
    )  # backward ends the tensors that forward has saved: three inputs of layers, and a mask


class Tied(nn.Module):
    """A layer whose weight is that of the embedding before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(24, 8)
        self.inner = nn.Linear(8, 8)

    def forward(self, ids: Tensor) -> Tensor:
        """A row of numbers for each."""
        return nn.functional.linear(torch.tanh(self.inner(self.embedding(ids))), self.embedding.weight)


def test_the_gradient_of_a_tied_weight_is_added_up_where_it_lies(device: FakeGraphs) -> None:
    programs: list[str] = []

    class Keeping(PythonEmitter):
        def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
            programs.append(print_program(artifact.program))
            return super().compile(artifact, guarded)

    eager = Tied()
    twin = copy.deepcopy(eager)
    options = {**OPTIONS, "emitter": Keeping(), "cuda_graphs": 8}
    compiled = torch.compile(eager, backend="wrapper_ir", options=options)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (eager, twin)]
    ids = torch.randint(0, 24, (16,))  # bound by address: an unfilled buffer would contain no indices
    for _ in range(6):
        train((compiled, twin), ids, optimizers)
    torch.testing.assert_close([*eager.parameters()], [*twin.parameters()])
    assert device.counts["replays"]
    (line,) = [each for each in programs[-1].splitlines() if "call aten::addmm.out(" in each]
    added, out = line.split("(%")[1].split(",")[0], line.split("out=%")[1].split(")")[0]
    assert f"%{out} = view %{added}" in programs[-1]


def test_gradients_that_accumulate(device: FakeGraphs) -> None:
    """Gradients are kept while the next backward pass runs: they are the caller's."""
    eager = model()
    twin = copy.deepcopy(eager)
    compiled = torch.compile(eager, backend="wrapper_ir", options=OPTIONS)
    for step in range(12):
        x = torch.randn(3, 8)
        for each in (compiled, twin):
            each(x).square().mean().backward()
        if step % 4 == 3:
            for ours, theirs in zip(eager.parameters(), twin.parameters(), strict=True):
                torch.testing.assert_close(ours.grad, theirs.grad)
            eager.zero_grad()
            twin.zero_grad()
    assert device.counts["replays"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_training_loops(device: FakeGraphs, name: str) -> None:
    """Losses and weights are eager's; forward and backward are replayed, and a compiled update is."""
    train_beside_eager(LOOPS[name], {"backend": "wrapper_ir", "options": OPTIONS})
    assert device.counts["cuda_graphs"] >= 2
    assert device.counts["replays"] >= 6


@pytest.mark.slow
def test_two_forwards_before_their_backwards(device: FakeGraphs) -> None:
    eager = model()
    twin = copy.deepcopy(eager)
    compiled = torch.compile(eager, backend="wrapper_ir", options=OPTIONS)
    for _ in range(6):
        inputs = [torch.randn(3, 8) for _ in range(3)]
        for each in (compiled, twin):
            losses = [each(x).square().mean() for x in inputs]
            torch.autograd.backward(losses)
        for ours, theirs in zip(eager.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)
            ours.grad = theirs.grad = None


def test_dynamic_sizes_and_their_limit(device: FakeGraphs) -> None:
    eager = model()
    compiled = torch.compile(eager, backend="wrapper_ir", dynamic=True, options={**OPTIONS, "cuda_graphs": 3})
    with torch.no_grad():
        inputs = [torch.randn(rows, 8) for rows in [*range(2, 12)] * 4]  # each at another address
        for x in inputs:
            torch.testing.assert_close(compiled(x), eager(x))
    assert device.counts["cuda_graphs"] == 3
    assert device.counts["replays"] == 3 * 3


@pytest.mark.slow
@pytest.mark.parametrize("planned", [False, True])
def test_memory_without_graphs_is_planned(monkeypatch: pytest.MonkeyPatch, planned: bool) -> None:
    """A program for a GPU, which the CPU replaces, allocates its intermediate results at once."""
    monkeypatch.setitem(_TRAITS, "cpu", ir.DeviceTraits(persists_memory=True, plans_memory=True))
    torch._dynamo.reset()
    programs: list[str] = []

    class Keeping(PythonEmitter):
        def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
            programs.append(print_program(artifact.program))
            return super().compile(artifact, guarded)

    sizes = (8, 64, 32, 64, 16, 4)
    eager = nn.Sequential(*[m for pair in pairwise(sizes) for m in (nn.Linear(*pair), nn.ReLU())])
    options: dict[str, Any] = {
        "emitter": Keeping(),
        "planned_memory": planned,
        "cache": False,
        "on_unsupported": "error",
    }
    compiled = torch.compile(eager, backend="wrapper_ir", options=options)
    with torch.no_grad():
        x = torch.randn(3, 8)
        torch.testing.assert_close(compiled(x), eager(x))
    (text,) = programs
    assert ("pool" in text) == planned

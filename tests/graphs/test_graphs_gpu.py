"""Captured programs on a GPU, compared with eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import inductor_frontend
import py_wrapper
from py_wrapper import PyOptions
from tests.graphs.training import LOOPS, train_beside_eager
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.pipeline import run_on_artifact
from wrapper_ir_runtime import DEVICE_GRAPHS, GraphedFunction

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are made by a CUDA device"),
]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.ReLU())])
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(64)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.drop(self.layers(x))).softmax(-1)
        return y


# Any: models, and their arguments
def graphed(model: nn.Module, *args: Any, passes: str = "cuda-graphs", **kwargs: Any) -> Any:
    artifact: Artifact = inductor_frontend.capture(model, args, **kwargs)
    artifact = run_on_artifact(artifact, passes)
    assert any(f.replayable for f in artifact.program.functions)
    return py_wrapper.compile(artifact, PyOptions(cuda_graphs=4))


def functions(call: Any) -> list[GraphedFunction[torch.Tensor]]:
    return [x for x in call.boxed.__globals__.values() if isinstance(x, GraphedFunction)]


@pytest.mark.parametrize("passes", ["cuda-graphs", "cuda-graphs,plan-memory"])
def test_equals_eager(passes: str) -> None:
    model = Model().cuda().eval()
    with torch.no_grad():
        call = graphed(model, torch.randn(8, 64, device="cuda"), passes=passes)
        for _ in range(6):
            x = torch.randn(8, 64, device="cuda")
            torch.testing.assert_close(call(x), model(x), rtol=2e-3, atol=2e-3)
    assert all(f._replay is not None and not f.refusal for f in functions(call))


def test_results_are_the_callers() -> None:
    model = Model().cuda().eval()
    with torch.no_grad():
        call = graphed(model, torch.randn(8, 64, device="cuda"))
        inputs = [torch.randn(8, 64, device="cuda") for _ in range(8)]
        results = [call(x) for x in inputs]
        torch.testing.assert_close(results, [model(x) for x in inputs], rtol=2e-3, atol=2e-3)


def test_dynamic_batches_and_their_limit() -> None:
    model = Model().cuda().eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    with torch.no_grad():
        call = graphed(model, torch.randn(8, 64, device="cuda"), dynamic_shapes=({0: batch},))
        for rows in [*range(2, 34)] * 3:
            x = torch.randn(rows, 64, device="cuda")
            torch.testing.assert_close(call(x), model(x), rtol=2e-3, atol=2e-3)
    (function,) = functions(call)
    assert sum(known.replay is not None for known in function._keys.values()) == 4


def test_no_memory_is_lost() -> None:
    model = Model().cuda().eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    with torch.no_grad():
        call = graphed(model, torch.randn(8, 64, device="cuda"), dynamic_shapes=({0: batch},))
        inputs = [torch.randn(rows, 64, device="cuda") for rows in range(2, 65)]
        for x in inputs * 5:
            y = call(x)
        before = torch.cuda.memory_allocated()
        for x in inputs * 160:
            y = call(x)
    assert y.shape == (64, 64)
    assert torch.cuda.memory_allocated() == before
    (function,) = functions(call)
    assert sum(known.replay is not None for known in function._keys.values()) <= 4


@pytest.mark.parametrize("emitter", ["python", "fx"])
@pytest.mark.parametrize("kept", [False, True])
def test_training_under_torch_compile(kept: bool, emitter: str) -> None:
    """Losses and weights are those of eager; forward and backward are replayed."""
    torch._dynamo.reset()
    nets = [
        nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(64, 64), nn.GELU())]).cuda() for _ in "ab"
    ]
    nets[1].load_state_dict(nets[0].state_dict())
    optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in nets]
    compiled: Callable[[Tensor], Tensor] = torch.compile(
        nets[0], backend="wrapper_ir", options={"cuda_graphs": 16, "emitter": emitter}
    )
    sides: tuple[Callable[[Tensor], Tensor], ...] = (compiled, nets[1])
    held: list[Tensor] = []
    for _ in range(12):
        x, losses = torch.randn(16, 64, device="cuda"), list[Tensor]()
        for net, optimizer in zip(sides, optimizers):
            optimizer.zero_grad()
            losses.append(net(x).square().mean())
            torch.autograd.backward(losses[-1])
            optimizer.step()
        torch.testing.assert_close(*losses, rtol=2e-3, atol=2e-3)
        held += [losses[0].detach()] * kept
    torch.testing.assert_close([*nets[0].parameters()], [*nets[1].parameters()], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", LOOPS)
def test_training_loops(name: str) -> None:
    """Losses and weights are eager's."""
    torch._dynamo.reset()
    options = {"cuda_graphs": 8, "on_unsupported": "error"}
    train_beside_eager(LOOPS[name], {"backend": "wrapper_ir", "options": options}, "cuda", steps=12)


def test_inference_under_torch_compile() -> None:
    torch._dynamo.reset()
    model = Model().cuda().eval()
    compiled = torch.compile(model, backend="wrapper_ir", mode="reduce-overhead", dynamic=True)
    results = []
    with torch.no_grad():
        for rows in [*range(2, 40)] * 3:
            x = torch.randn(rows, 64, device="cuda")
            results.append((compiled(x), model(x)))
    for got, want in results:
        torch.testing.assert_close(got, want, rtol=2e-3, atol=2e-3)


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.bernoulli(x.sigmoid()) + torch.nn.functional.dropout(x, 0.5, training=True).cumsum(-1)


def test_random_numbers_are_those_of_a_plain_run() -> None:
    model = Noise().cuda()
    x = torch.randn(32, 64, device="cuda")
    artifact: Artifact = inductor_frontend.capture(model, (x,))
    plain = py_wrapper.compile(artifact)
    call = py_wrapper.compile(run_on_artifact(artifact, "cuda-graphs"))
    for seed in range(4):
        torch.manual_seed(seed)
        want = [plain(x), plain(x)]
        torch.manual_seed(seed)
        torch.testing.assert_close([call(x), call(x)], want)
    torch.manual_seed(7)
    assert not torch.equal(call(x), call(x))


class Running(nn.Module):
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(64))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(x.sum(0))
        return (x @ x.T).softmax(-1) * self.count.sum()


def test_state_and_mutated_inputs() -> None:
    model, other = Running().cuda(), Running().cuda()
    call = graphed(model, torch.randn(8, 64, device="cuda"))
    for _ in range(5):
        x = torch.randn(8, 64, device="cuda")
        torch.testing.assert_close(call(x), other(x), rtol=2e-3, atol=2e-3)


def test_streams() -> None:
    model = Model().cuda().eval()
    with torch.no_grad():
        call = graphed(model, torch.randn(8, 64, device="cuda"))
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
        for _ in range(20):
            for stream in (torch.cuda.current_stream(), side):
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    x = torch.randn(8, 64, device="cuda")
                    y, want = call(x), model(x)
                torch.cuda.synchronize()
                torch.testing.assert_close(y, want, rtol=2e-3, atol=2e-3)


def test_inside_of_a_graph_of_the_caller() -> None:
    model = Model().cuda().eval()
    with torch.no_grad():
        x = torch.randn(8, 64, device="cuda")
        call = graphed(model, x)
        for _ in range(3):
            call(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = call(x)
        x.normal_()
        graph.replay()
        torch.testing.assert_close(y, model(x), rtol=2e-3, atol=2e-3)


def test_an_input_that_moves() -> None:
    """It is bound by address as long as that is stable, and copied from then on.

    An old graph's input has no owner any more.
    """
    model = Model().cuda().eval()
    with torch.no_grad():
        x = torch.randn(8, 64, device="cuda")
        call = graphed(model, x)
        for _ in range(4):
            x.normal_()
            torch.testing.assert_close(call(x), model(x), rtol=2e-3, atol=2e-3)
        held = [torch.randn(8, 64, device="cuda") for _ in range(4)]
        for each in (*held, x, *held):
            torch.testing.assert_close(call(each), model(each), rtol=2e-3, atol=2e-3)
        del x, each, held
        torch.cuda.empty_cache()
        for _ in range(3):
            y = torch.randn(8, 64, device="cuda")
            torch.testing.assert_close(call(y), model(y), rtol=2e-3, atol=2e-3)


def test_what_cannot_be_captured(caplog: pytest.LogCaptureFixture) -> None:
    """A function that waits for the device runs eagerly, and later captures work."""
    device = DEVICE_GRAPHS.get("cuda:0", py_wrapper_graphs)

    def waits(args: list[Tensor]) -> tuple[Tensor, ...]:
        (x,) = args
        return (x * float(x.sum().item()),)

    function = device.graphed(waits, "waits", limit=4, tensors=(0,))
    for _ in range(4):
        x = torch.randn(8, 64, device="cuda")
        torch.testing.assert_close(function([x])[0], x * x.sum())
    assert function.refusal
    assert len([r for r in caplog.records if "runs as it is" in r.getMessage()]) == 1
    test_equals_eager("cuda-graphs")
    test_random_numbers_are_those_of_a_plain_run()


def test_memory_exhausted_during_capture(caplog: pytest.LogCaptureFixture) -> None:
    device = DEVICE_GRAPHS.get("cuda:0", py_wrapper_graphs)
    limit = [0]

    def large(args: list[Tensor]) -> tuple[Tensor, ...]:
        (x,) = args
        held = torch.empty(limit[0] << 30, dtype=torch.uint8, device="cuda")
        return (x + held[:1].numel(),)

    function = device.graphed(large, "large", limit=4, tensors=(0,))
    x = torch.randn(8, device="cuda")
    for size in (1, 500, 1, 1):
        limit[0] = size
        if size == 1:
            torch.testing.assert_close(function([x])[0], x + 1)
        else:
            with pytest.raises(torch.OutOfMemoryError):  # the eager run has no memory either
                function([x])
    assert not function.refusal
    test_equals_eager("cuda-graphs")


def py_wrapper_graphs(name: str) -> Any:
    from wrapper_ir_torch import TorchGraphs

    return TorchGraphs(name)


_TRAP = """
import torch
from wrapper_ir_runtime import DEVICE_GRAPHS
from tests.graphs.test_graphs_gpu import py_wrapper_graphs

def trap(args):
    (x, i) = args
    return (x[i],)

function = DEVICE_GRAPHS.get("cuda:0", py_wrapper_graphs).graphed(trap, "trap", limit=4, tensors=(0, 1))
x, i = torch.randn(8, device="cuda"), torch.zeros(4, dtype=torch.int64, device="cuda")
for _ in range(3):
    function([x, i])
torch.cuda.synchronize()
try:
    function([x, i + 1000])
    torch.cuda.synchronize()
except RuntimeError as error:
    print("the caller sees:", str(error).splitlines()[0])
"""


def test_a_kernel_that_traps() -> None:
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", _TRAP], capture_output=True, text=True, timeout=120)
    assert "the caller sees: CUDA error" in done.stdout, done.stdout + done.stderr


def test_two_threads() -> None:
    import threading

    model = Model().cuda().eval()
    with torch.no_grad():
        call = graphed(model, torch.randn(8, 64, device="cuda"))
    wrong: list[float] = []

    def work() -> None:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]  # torch's own
            for _ in range(30):
                x = torch.randn(8, 64, device="cuda")
                y, want = call(x).clone(), model(x)
                torch.cuda.current_stream().synchronize()
                wrong.append(float((y - want).abs().max()))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 90
    assert max(wrong) < 2e-3

"""Replayable functions of C++ libraries on a CUDA device: replays equal eager mode."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpp_wrapper
from cpp_wrapper import CppOptions
from cpp_wrapper.emitter import CppEmitter
from cpp_wrapper.library.python import LoadedProgram
from inductor_frontend import capture
from tests.cpp.cpp_case import FAST
from tests.cpp.cpp_gpu import MATMULS
from wrapper_ir import parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes.pipeline import run_on_artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are made by a CUDA device"),
]
TOLERANCE = 2e-3
OPTIONS = CppOptions(opt_level=1, cuda_graphs=4)


class Model(nn.Module):
    """Matmuls with and without a bias, kernels between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.GELU())])
        self.last = nn.Linear(64, 48, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.layers(x)).softmax(-1)
        return y


def build(artifact: Artifact, folder: Path) -> LoadedProgram:
    """Builds a library that captures the whole program."""
    path = cpp_wrapper.build(
        run_on_artifact(artifact, CppEmitter().cuda_graph_passes), folder / "m.pt2", OPTIONS
    )
    facts = cpp_wrapper.metadata(path)
    assert facts["replayed"]
    assert not facts["not_replayed"]
    return cpp_wrapper.load(path)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, LoadedProgram]:
    torch.manual_seed(0)
    model = Model().cuda().eval()
    rows = torch.export.Dim("rows", min=2, max=64)
    with torch.no_grad():
        artifact = capture(model, (torch.randn(8, 64, device="cuda"),), dynamic_shapes=({0: rows},))
    return model, build(artifact, tmp_path_factory.mktemp("replayed"))


def same(found: Any, want: Any) -> None:
    torch.testing.assert_close(found, want, rtol=TOLERANCE, atol=TOLERANCE)


def allocations(run: Callable[[], object]) -> int:
    """Returns the number of allocations of a call: a replay allocates only its results, any other call
    intermediate memory, too.
    """

    def count() -> int:
        found: int = torch.cuda.memory_stats()["allocation.all.allocated"]
        return found

    before = count()
    run()
    return count() - before


def test_replays_equal_eager(
    program: tuple[nn.Module, LoadedProgram], capfd: pytest.CaptureFixture[str]
) -> None:
    """Results belong to the caller; cuBLAS workspaces that torch frees are not used."""
    model, f = program
    held = []
    with torch.no_grad():
        first = torch.randn(8, 64, device="cuda")
        assert allocations(lambda: f(first)) > 1
        for step in range(8):
            x = torch.randn(8, 64, device="cuda")
            held.append((f(x), model(x)))
            if step == 4:
                torch._C._cuda_clearCublasWorkspaces()
                torch.cuda.empty_cache()
    for found, want in held:
        same(found, want)
    assert "CPP595" not in capfd.readouterr().err
    assert allocations(lambda: f(x)) == 1


def test_sizes_come_and_go(program: tuple[nn.Module, LoadedProgram]) -> None:
    """Keys past the limit run as they are, and memory is flat."""
    model, f = program
    with torch.no_grad():
        for rows in [*range(2, 65, 3)] * 3:
            x = torch.randn(rows, 64, device="cuda")
            same(f(x), model(x))
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        for _ in range(2000):
            f(x)
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated() == before


def test_threads_and_streams(program: tuple[nn.Module, LoadedProgram]) -> None:
    model, f = program
    failures: list[BaseException] = []

    def work(rows: int) -> None:
        try:
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
            with torch.no_grad(), torch.cuda.stream(stream):
                for _ in range(50):
                    x = torch.randn(rows, 64, device="cuda")
                    found, want = f(x), model(x)
                    stream.synchronize()
                    same(found, want)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(8 + n % 3,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_in_a_graph_of_the_callers(program: tuple[nn.Module, LoadedProgram]) -> None:
    model, f = program
    x = torch.randn(8, 64, device="cuda")
    with torch.no_grad():
        f(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = f(x)
        for _ in range(3):
            x.normal_()
            graph.replay()
            same(found, model(x))
            same(f(x), model(x))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_matmuls(dtype: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    major, minor = torch.cuda.get_device_capability()
    text = MATMULS.replace("f32", dtype)
    inputs = f"const %w : {dtype}[6, 4]\nconst %bias : {dtype}[6]\nconst %batches : {dtype}[2, 6, 6]\n"
    body = text.replace(inputs, "").replace(
        "(%x: ",
        f"(%w: static {dtype}[6, 4], %bias: static {dtype}[6], %batches: static {dtype}[2, 6, 6], %x: ",
    )
    source = parse_program(f'wir 0.5\ntarget cuda:0 arch "sm_{major}{minor}"\n{body}')
    artifact = run_on_artifact(bare_artifact(source), CppEmitter().cuda_graph_passes)
    f = cpp_wrapper.load(cpp_wrapper.build(artifact, tmp_path / "m.so", FAST))
    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    w, bias, batches = (torch.randn(*n, device="cuda").to(kind) for n in ((6, 4), (6,), (2, 6, 6)))
    tolerance = 2e-3 if dtype == "f32" else 3e-2
    for _ in range(4):
        x = torch.randn(2, 5, 4, device="cuda").to(kind)
        b, c, d = f(w, bias, batches, x)
        a = (x @ w.T + bias).reshape(10, 6)
        for found, want in (
            (b, a @ w),
            (c, a.view(2, 5, 6) @ batches),
            (d, 2.5 * (a.view(2, 5, 6) @ batches)),
        ):
            torch.testing.assert_close(found, want, rtol=tolerance, atol=20 * tolerance)
    assert "CPP595" not in capfd.readouterr().err
    assert allocations(lambda: f(w, bias, batches, x)) == 3


def test_reduce_overhead_in_cpp(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Inference and training through torch.compile."""
    torch.manual_seed(0)
    model = Model().cuda()
    options: dict[str, Any] = {"emitter": "cpp", "cuda_graphs": 4, "cache": str(tmp_path)}
    options["on_unsupported"] = "error"
    compiled = torch.compile(model, backend="wrapper_ir", options=options)
    with torch.no_grad():
        for _ in range(6):
            x = torch.randn(8, 64, device="cuda")
            same(compiled(x), model(x))
        assert allocations(lambda: compiled(x)) == 1
    for _ in range(6):
        x = torch.randn(8, 64, device="cuda")
        gradients = []
        for run in (model, compiled):
            model.zero_grad()
            run(x).square().sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        same(*gradients)
    assert "CPP595" not in capfd.readouterr().err

"""Convolutions of native libraries by cuDNN on a CUDA device: against eager, in graphs, on streams and threads."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cpp_wrapper
from cpp_wrapper import CppOptions
from cpp_wrapper.library.python import LoadedProgram
from inductor_frontend import CaptureOptions, capture
from tests.cpp.cpp_gpu import artifact_for_gpu
from tests.native.convolution_cases import CASES, LARGE, program_of
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.pipeline import run_on_artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

_NATIVE = CppOptions(runtime="native")
_PLANNED = "use-out-variants{runtime=native},plan-memory"
# float32 as eager: TF32, perhaps by another algorithm
_TOLERANCES = {torch.float32: 5e-3, torch.float64: 1e-10, torch.float16: 5e-3, torch.bfloat16: 4e-2}


def _load(artifact: Artifact, path: Path) -> LoadedProgram:
    return cpp_wrapper.load(cpp_wrapper.build(artifact, path, _NATIVE))


@pytest.mark.parametrize("dtype", _TOLERANCES, ids=str)
def test_all_kinds_equal_eager(dtype: torch.dtype, tmp_path: Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    text, inputs, results = program_of((*CASES, *LARGE), dtype, "cuda")
    f = _load(artifact_for_gpu(text, archs=(f"sm_{major}{minor}",)), tmp_path / "m.so")
    bound = _TOLERANCES[dtype]
    wrong = []
    for case, made, wanted in zip((*CASES, *LARGE), f(*inputs), results, strict=True):
        assert made.stride() == wanted.stride()
        if not torch.allclose(made, wanted, rtol=bound, atol=bound):
            wrong.append((case, float((made - wanted).abs().max())))
    assert wrong == []


class Network(nn.Module):
    """Convolutions with batch norms, a residual, groups, and a transposed one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        y = torch.relu(self.block(y) + y)
        y = torch.relu(self.depthwise(y))
        return torch.tanh(self.up(y))


def _network(dtype: torch.dtype, passes: str, **options: object) -> tuple[Network, Artifact]:
    torch.manual_seed(0)
    model = Network().cuda().eval().to(dtype)
    x = torch.randn(2, 3, 32, 32, device="cuda", dtype=dtype)
    shapes = ({0: torch.export.Dim("batch", min=2, max=64)},)
    chosen = CaptureOptions(**options)  # type: ignore[arg-type]  # any options
    with torch.no_grad():
        artifact = capture(model, (x,), dynamic_shapes=shapes, options=chosen)
    return model, run_on_artifact(artifact, passes) if passes else artifact


def _compare(f: LoadedProgram, model: nn.Module, x: Tensor) -> None:
    bound = _TOLERANCES[x.dtype]
    with torch.no_grad():
        torch.testing.assert_close(f(x), model(x), rtol=bound, atol=bound)


@pytest.mark.parametrize(
    ("dtype", "passes"),
    [
        (torch.float32, ""),
        (torch.bfloat16, _PLANNED),
        (torch.float32, "use-out-variants{runtime=native},cuda-graphs{own_memory=true},plan-memory"),
    ],
    ids=str,
)
def test_networks_equal_eager(dtype: torch.dtype, passes: str, tmp_path: Path) -> None:
    model, artifact = _network(dtype, passes)
    f = _load(artifact, tmp_path / "m.so")
    for batch in (2, 2, 2, 2, 7, 33, 2):
        _compare(f, model, torch.randn(batch, 3, 32, 32, device="cuda", dtype=dtype))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: _on_stream(f, model, number, dtype), range(4)))


def _on_stream(f: LoadedProgram, model: nn.Module, number: int, dtype: torch.dtype) -> None:
    generator = torch.Generator("cuda").manual_seed(number)
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        for _ in range(20):
            _compare(f, model, torch.randn(4, 3, 32, 32, device="cuda", generator=generator, dtype=dtype))


def test_calls_are_captured_after_the_first(tmp_path: Path) -> None:
    model, artifact = _network(torch.float32, _PLANNED)
    f = _load(artifact, tmp_path / "m.so")
    x, y = torch.randn(2, 3, 32, 32, device="cuda"), torch.empty(2, 8, 32, 32, device="cuda")
    with torch.no_grad():
        y = torch.empty_strided(y.shape, f(x).stride(), device="cuda")
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for _ in range(3):
            f.run_into([y], x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        f.run_into([y], x)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        y.zero_()
        graph.replay()
        torch.cuda.synchronize()
        with torch.no_grad():
            torch.testing.assert_close(y, model(x), rtol=5e-3, atol=5e-3)


def test_calls_keep_no_memory(tmp_path: Path) -> None:
    _, artifact = _network(torch.float32, _PLANNED)
    f = _load(artifact, tmp_path / "m.so")
    x = torch.randn(2, 3, 32, 32, device="cuda")
    for _ in range(10):
        f(x)
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(500):
        f(x)
    torch.cuda.synchronize()
    assert before - torch.cuda.mem_get_info()[0] < 1 << 20


_RUN = """
import sys
import numpy as np
import wrapper_ir_native
f = wrapper_ir_native.load(sys.argv[1])
np.save(sys.argv[3], f(np.load(sys.argv[2])))
maps = open("/proc/self/maps").read()
assert "torch" not in sys.modules and "libtorch" not in maps, maps
"""


def _run(path: Path, x: Tensor, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    np.save(folder / "x.npy", x.numpy())
    command = [sys.executable, "-c", _RUN, str(path), str(folder / "x.npy"), str(folder / "y.npy")]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )


def test_a_process_without_torch_and_one_without_cudnn(tmp_path: Path) -> None:
    model, artifact = _network(torch.float32, _PLANNED)
    path = cpp_wrapper.build(artifact, tmp_path / "m.so", _NATIVE)
    x = torch.randn(3, 3, 32, 32)
    done = _run(path, x, tmp_path)
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        wanted = model(x.cuda()).cpu()
    made = torch.from_numpy(np.load(tmp_path / "y.npy"))
    torch.testing.assert_close(made, wanted, rtol=5e-3, atol=5e-3)
    failed = _run(path, x, tmp_path, WIR_CUDNN="/nowhere")
    assert "WIR927" in failed.stderr
    assert "install cuDNN 9, set WIR_CUDNN" in failed.stderr


def test_convolutions_as_templates_need_no_cudnn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 16, 1)).cuda().eval()
    x = torch.randn(2, 16, 16, 16, device="cuda")
    with torch.no_grad():
        artifact = capture(model, (x,), options=CaptureOptions(matmuls="templates"))
    f = _load(artifact, tmp_path / "m.so")
    monkeypatch.setenv("WIR_CUDNN", "/nowhere")
    _compare(f, model, x)

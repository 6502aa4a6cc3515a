"""Native libraries on a CUDA device: against eager, without torch in the process, on streams and threads."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cpp_wrapper
from cpp_wrapper import CppOptions, EmitError
from cpp_wrapper.library.python import LoadedProgram
from inductor_frontend import CaptureOptions, capture
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.pipeline import run_on_artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

_PASSES = ("", "plan-memory", "cuda-graphs{own_memory=true},plan-memory")
_TOLERANCES = {torch.float32: (1e-5, 1e-5), torch.bfloat16: (2e-2, 2e-2), torch.float16: (2e-3, 2e-3)}


class Mlp(nn.Module):
    """Products with and without a bias, and a batch of them."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(48, 96, dtype=dtype), nn.Linear(96, 32, bias=False, dtype=dtype)
        self.scale = nn.Parameter(torch.randn(32, dtype=dtype))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.second(torch.relu(self.first(x))) * self.scale
        return y, torch.bmm(y, y.transpose(1, 2)).softmax(-1)


def _artifact(dtype: torch.dtype, passes: str, **options: object) -> tuple[Mlp, Artifact]:
    torch.manual_seed(0)
    model = Mlp(dtype).cuda().eval()
    x = torch.randn(4, 16, 48, device="cuda", dtype=dtype)
    shapes = ({0: torch.export.Dim("batch", min=2, max=64)},)
    chosen = CaptureOptions(**options)  # type: ignore[arg-type]  # any options
    artifact = capture(model, (x,), dynamic_shapes=shapes, options=chosen)
    return model, run_on_artifact(artifact, passes) if passes else artifact


def _load(artifact: Artifact, path: Path) -> LoadedProgram:
    return cpp_wrapper.load(cpp_wrapper.build(artifact, path, CppOptions(runtime="native")))


def _compare(f: LoadedProgram, model: nn.Module, x: Tensor, dtype: torch.dtype) -> None:
    rtol, atol = _TOLERANCES[dtype]
    with torch.no_grad():
        torch.testing.assert_close(f(x), model(x), rtol=rtol, atol=atol)


@pytest.mark.parametrize("passes", _PASSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_products_and_kernels_equal_eager(dtype: torch.dtype, passes: str, tmp_path: Path) -> None:
    model, artifact = _artifact(dtype, passes)
    f = _load(artifact, tmp_path / "m.so")
    for batch in (4, 4, 4, 4, 4, 2, 33, 4):
        _compare(f, model, torch.randn(batch, 16, 48, device="cuda", dtype=dtype), dtype)


def test_products_as_templates_need_no_cublas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, artifact = _artifact(torch.float32, "plan-memory", matmuls="templates")
    f = _load(artifact, tmp_path / "m.so")
    monkeypatch.setenv("WIR_CUBLASLT", "/nowhere")
    _compare(f, model, torch.randn(4, 16, 48, device="cuda"), torch.float32)


def test_without_cublas_products_say_so(tmp_path: Path) -> None:
    _, artifact = _artifact(torch.float32, "")
    path = cpp_wrapper.build(artifact, tmp_path / "m.so", CppOptions(runtime="native"))
    done = _run(f"{_NUMPY}\nf(np.zeros((4, 16, 48), np.float32))", path, WIR_CUBLASLT="/nowhere")
    assert "WIR927" in done.stderr
    assert "install cuBLAS, set WIR_CUBLASLT" in done.stderr


_NUMPY = """
import sys
import numpy as np
import wrapper_ir_native
f = wrapper_ir_native.load(sys.argv[1])
"""


def _run(code: str, *args: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )


def test_a_process_without_torch(tmp_path: Path) -> None:
    model, artifact = _artifact(torch.float32, "cuda-graphs{own_memory=true},plan-memory")
    path = cpp_wrapper.build(artifact, tmp_path / "m.so", CppOptions(runtime="native"))
    x = torch.randn(8, 16, 48)
    torch.save(x, tmp_path / "x.pt")
    import numpy as np

    np.save(tmp_path / "x.npy", x.numpy())
    code = f"""{_NUMPY}
x = np.load(sys.argv[2])
for _ in range(5):
    y, scores = f(x)
np.save(sys.argv[3], y)
maps = open("/proc/self/maps").read()
assert "torch" not in sys.modules and "libtorch" not in maps and "libcudart" not in maps, maps
assert "libcuda.so" in maps
"""
    done = _run(code, path, tmp_path / "x.npy", tmp_path / "y.npy")
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        wanted = model(x.cuda())[0].cpu()
    torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "y.npy")), wanted, rtol=1e-4, atol=1e-5)


def test_streams_of_several_threads(tmp_path: Path) -> None:
    model, artifact = _artifact(torch.float32, "cuda-graphs{own_memory=true},plan-memory")
    f = _load(artifact, tmp_path / "m.so")

    def run(number: int) -> None:
        generator = torch.Generator("cuda").manual_seed(number)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(50):
                x = torch.randn(4, 16, 48, device="cuda", generator=generator)
                torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64, torch.complex128], ids=str
)
def test_results_are_copied_into_any_strides(dtype: torch.dtype, tmp_path: Path) -> None:
    class Joined(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, x.flip(2) if x.dtype.is_floating_point else x])

    x = (torch.arange(60, device="cuda") % 7).to(dtype).view(3, 4, 5)
    f = _load(capture(Joined(), (x,)), tmp_path / "m.so")
    backing = torch.zeros(300, device="cuda", dtype=dtype)
    target = backing.as_strided((6, 4, 5), (2, 70, 13))
    f.run_into([target], x)
    wanted = Joined()(x)
    assert torch.equal(target, wanted)
    assert int((backing != 0).sum()) == int((wanted != 0).sum())


def test_constants_are_updated_on_the_device(tmp_path: Path) -> None:
    model, artifact = _artifact(torch.float32, "cuda-graphs{own_memory=true},plan-memory")
    f = _load(artifact, tmp_path / "m.so")
    x = torch.randn(4, 16, 48, device="cuda")
    for _ in range(4):
        _compare(f, model, x, torch.float32)
    with torch.no_grad():
        model.first.weight.mul_(-1)
    f.update_constants({"first.weight": model.first.weight.detach()})
    for _ in range(4):
        _compare(f, model, x, torch.float32)
    f.update_constants({"first.weight": -model.first.weight.detach().cpu()})
    with torch.no_grad():
        model.first.weight.mul_(-1)
    _compare(f, model, x, torch.float32)


def test_an_operator_that_is_not_there_is_named(tmp_path: Path) -> None:
    artifact = capture(lambda x: torch.fft.fft(x).abs(), (torch.randn(8, 16, device="cuda"),))
    with pytest.raises(EmitError, match=r"CPP502.*_fft_.*on cuda:0"):
        cpp_wrapper.build(artifact, tmp_path / "m.so", CppOptions(runtime="native"))


def test_calls_keep_no_memory(tmp_path: Path) -> None:
    _, artifact = _artifact(torch.float32, "plan-memory")
    f = _load(artifact, tmp_path / "m.so")
    x = torch.randn(4, 16, 48, device="cuda")
    for _ in range(10):
        f(x)
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(1000):
        f(x)
    torch.cuda.synchronize()
    assert before - torch.cuda.mem_get_info()[0] < 1 << 20

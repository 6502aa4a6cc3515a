"""Native programs for CUDA devices as CMake projects and static libraries, and from a folder; on a fake driver."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper._compat import torch_include_dirs
from tests.cpp.clang import cmake
from tests.cpp.cpp_gpu import GRAPH_PASSES, MATMULS, MIXED, artifact_for_gpu
from tests.native.device_case import FakeDevice, OnDevice, build_native, load_fakes, open_linked
from tests.native.interface_case import output
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.pipeline import run_on_artifact

_GENERATOR = torch.Generator().manual_seed(0)
_MATRICES = {
    "w": torch.randn(6, 4, generator=_GENERATOR),
    "bias": torch.randn(6, generator=_GENERATOR),
    "batches": torch.randn(2, 6, 6, generator=_GENERATOR),
}


@pytest.fixture(scope="module")
def gpu() -> FakeDevice:
    return load_fakes()


def _mixed() -> Artifact:
    """Kernels of both devices, and constants."""
    return artifact_for_gpu(MIXED, {"w": torch.arange(1024.0), "none": torch.zeros(0, 4)})


def _graphs() -> Artifact:
    """Matmuls in CUDA graphs."""
    return run_on_artifact(artifact_for_gpu(MATMULS, _MATRICES), GRAPH_PASSES)


def _check_mixed(program: wrapper_ir_native.NativeProgram) -> None:
    x = np.arange(8, dtype=np.float32)
    y, z, none, number = program(OnDevice(x), OnDevice(np.array(5)), np.ones(4, dtype=np.float32))
    np.testing.assert_allclose(y.numpy(), x + 0.5 * np.arange(8))
    np.testing.assert_allclose(z.numpy(), [2.0] * 4)
    assert (none.shape, number) == ((0, 4), 10)


def _check_graphs(program: wrapper_ir_native.NativeProgram) -> None:
    x = torch.randn(2, 5, 4, generator=_GENERATOR)
    a = (x.reshape(10, 4) @ _MATRICES["w"].T + _MATRICES["bias"]).view(10, 6)
    for _ in range(4):
        first = program(OnDevice(x.numpy()))[0]
        torch.testing.assert_close(torch.from_numpy(first.numpy()), a @ _MATRICES["w"])


_CHECKS = {"mixed": (_mixed, _check_mixed), "graphs": (_graphs, _check_graphs)}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "weights"), [("mixed", "inside"), ("graphs", "beside")])
def test_a_project(gpu: FakeDevice, name: str, weights: str, tmp_path: Path) -> None:
    make, check = _CHECKS[name]
    options = cpp_wrapper.CppOptions(runtime="native", opt_level=0, weights=weights)
    folder = cpp_wrapper.build(make(), tmp_path / "project", options, source_only=True)
    include = f"-DTORCH_INCLUDE_DIR={torch_include_dirs()[0]}"
    build = tmp_path / "build"
    for words in (("-S", folder, "-B", build, include), ("--build", build, "--parallel", "2")):
        done = cmake(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    check(open_linked(build / "model.so"))


@pytest.mark.parametrize(("name", "weights"), [("mixed", "inside"), ("graphs", "beside")])
def test_a_static_library(gpu: FakeDevice, name: str, weights: str, tmp_path: Path) -> None:
    make, check = _CHECKS[name]
    archive = build_native(make(), tmp_path / f"lib{name}.a", weights=weights)
    shown = output("nm", "-g", "--defined-only", archive).split()
    assert [word for word in shown if word.startswith("wir")] == [f"wir_{name}_get_api"]
    linked = tmp_path / "linked.so"
    whole = (
        "-Wl,--whole-archive",
        archive,
        "-Wl,--no-whole-archive",
        f"-Wl,--defsym=wir_get_api=wir_{name}_get_api",
    )
    output("g++", "-shared", "-o", linked, *whole, "-ldl", "-lgomp")
    check(open_linked(linked))

"""Sources as a CMake project with several compilers, and the C++ runner in a program without Python."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._C._aoti import AOTIModelContainerRunnerCpu

import cpp_wrapper
from cpp_wrapper._compat import torch_include_dirs
from inductor_frontend import capture
from tests.cpp.clang import cmake, write_clang, write_cross_toolchain
from tests.cpp.cpp_case import FAST
from wrapper_ir.artifact import Artifact


class Encoder(torch.nn.Module):
    """Tokens to vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 8)
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """[batch, length] twice, int64, to [batch, 4]."""
        states: Tensor = torch.tanh(self.layer(self.table(tokens)))
        return (states * mask[..., None]).sum(1)


TOKENS, MASK = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])


@pytest.fixture(scope="module")
def model() -> Encoder:
    return Encoder().eval()


@pytest.fixture(scope="module")
def artifact(model: Encoder) -> Artifact:
    batch = torch.export.Dim("batch", min=2, max=64)
    return capture(model, (TOKENS, MASK), dynamic_shapes=({0: batch}, {0: batch}))


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_project_is_configured_built_and_run(
    artifact: Artifact, model: Encoder, compiler: str, tmp_path: Path
) -> None:
    folder = cpp_wrapper.build(artifact, tmp_path / "project", FAST, source_only=True)
    build = tmp_path / "build"
    chosen = write_clang(tmp_path) if compiler == "clang++" else ("gcc", "g++")
    compilers = [f"-DCMAKE_{what}_COMPILER={command}" for what, command in zip(("C", "CXX"), chosen)]
    if compiler == "g++":
        missing = cmake("-S", folder, "-B", tmp_path / "none", *compilers)
        assert "-DTORCH_INCLUDE_DIR=" in missing.stderr
    own = ("-DCMAKE_CXX_FLAGS=-UNDEBUG", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    include = f"-DTORCH_INCLUDE_DIR={torch_include_dirs()[0]}"
    done = cmake("-S", folder, "-B", build, include, *compilers, *own)
    assert done.returncode == 0, done.stderr
    identity = "Clang" if compiler == "clang++" else "GNU"
    assert f"The CXX compiler identification is {identity}" in done.stdout
    done = cmake("--build", build, "--parallel", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    _assert_own_flags_count(build)
    found = AOTIModelContainerRunnerCpu(str(build / "model.so"), 1).run([TOKENS, MASK])[0]
    with torch.no_grad():
        torch.testing.assert_close(found, model(TOKENS, MASK))
    linked = _output("readelf", "-d", build / "model.so")
    assert "libtorch_cpu.so" in linked
    assert "RPATH" not in linked
    assert "RUNPATH" not in linked


def _assert_own_flags_count(build: Path) -> None:
    """Checks that the user's flags follow those of each unit."""
    units = [unit["command"].split() for unit in json.loads((build / "compile_commands.json").read_text())]
    compiled = [words for words in units if words[-1].endswith(".cpp")]
    assert len(compiled) >= 7
    for words in compiled:
        assert [word for word in words if word.endswith("NDEBUG")][-1] == "-UNDEBUG"


@pytest.mark.conformance
def test_a_project_is_built_for_another_machine(model: Encoder, tmp_path: Path) -> None:
    """For arm64, by a toolchain file: kernels for any processor."""
    captured = capture(model, (TOKENS, MASK), cpu_isas=("generic",))
    folder = cpp_wrapper.build(captured, tmp_path / "project", source_only=True)
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={write_cross_toolchain(tmp_path)}"
    done = cmake(
        *("-S", folder, "-B", tmp_path / "build", f"-DTORCH_INCLUDE_DIR={torch_include_dirs()[0]}", toolchain)
    )
    assert done.returncode == 0, done.stderr
    done = cmake("--build", tmp_path / "build", "--parallel", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    library = tmp_path / "build" / "model.so"
    assert "AArch64" in _output("readelf", "-h", library)
    assert "AOTInductorModelContainerRun" in _output("readelf", "--dyn-syms", "-W", library)


def _output(*words: str | Path) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_program_without_python_runs_a_package(
    artifact: Artifact, model: Encoder, cpp_runner: Path, tmp_path: Path
) -> None:
    package = cpp_wrapper.build(artifact, tmp_path / "m.pt2", FAST)
    linked = subprocess.run(["ldd", cpp_runner], capture_output=True, text=True, check=True).stdout
    assert "libpython" not in linked
    assert "libtorch_python" not in linked
    (tmp_path / "tokens").write_bytes(TOKENS.numpy().tobytes())
    (tmp_path / "mask").write_bytes(MASK.numpy().tobytes())
    words: list[str | Path] = [
        cpp_runner,
        package,
        tmp_path / "y",
        tmp_path / "tokens",
        "2",
        "3",
        tmp_path / "mask",
        "2",
        "3",
    ]
    env = {**os.environ, "TMPDIR": "/nowhere", "PATH": ""}
    subprocess.run(words, check=True, env=env, capture_output=True)
    found = torch.frombuffer(bytearray((tmp_path / "y").read_bytes()), dtype=torch.float32).view(2, 4)
    with torch.no_grad():
        torch.testing.assert_close(found, model(TOKENS, MASK))
    wrong = subprocess.run([*words[:-2], "3", "2"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "[WIR92" in wrong.stderr
    assert "argument mask: expected i64[batch, 3]" in wrong.stderr or "sizes" in wrong.stderr
    package.write_bytes(package.read_bytes()[:-100])
    broken = subprocess.run(words, capture_output=True, text=True, check=False)
    assert broken.returncode == 1
    assert "package" in broken.stderr

"""Native libraries of many programs in one build, and sources as a CMake project."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions
from cpp_wrapper._compat import torch_include_dirs
from cpp_wrapper.library.batch import build_libraries
from cpp_wrapper.sources.program import emit_sources
from inductor_frontend import capture
from tests.cpp.clang import cmake
from tests.cpp.cpp_case import KERNELS, artifact_of_text
from tests.native.interface_case import output
from tests.native.native_case import NativeLibrary
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ArgumentError
from wrapper_ir_passes.pipeline import run_on_artifact

ADD = """
const %c : f32[8]

func @main(%x: f32[8], %n: int) {
  %y = alloc f32[8]
  launch @double(%c, %y, 8)
  launch @increment(%y, 8)
  return %y, {more}
}
"""
HIDDEN = """
func @main(%x: f32[8]) {
  %part = alloc f32[8]
  launch @double(%x, %part, 8)
  %part_0 = alloc f32[8]
  launch @double(%part, %part_0, 8)
  %y = alloc f32[8]
  launch @double(%part_0, %y, 8)
  return %y
}
"""


def added(value: float, more: int) -> Artifact:
    """A program that returns a constant, and a number."""
    text = KERNELS + ADD.replace("{more}", str(more))
    return artifact_of_text(text, {"c": torch.full((8,), float(value))})


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_programs_of_a_batch_have_their_own_descriptions(weights: str, tmp_path: Path) -> None:
    options = CppOptions(runtime="native", opt_level=0, weights=weights)
    hidden = run_on_artifact(artifact_of_text(KERNELS + HIDDEN), "plan-memory")
    artifacts = {"one": added(1, 10), "two": added(2, 20), "hidden": hidden}
    paths = {name: tmp_path / f"{name}.so" for name in artifacts}
    sources = [emit_sources(one, None, options, name) for name, one in artifacts.items()]
    build_libraries(list(zip(sources, paths.values())), options)
    for name, value, number in (("one", 3, 10), ("two", 5, 20)):
        program = cpp_wrapper.load(paths[name])
        for _ in range(2):
            y, n = program.boxed([torch.ones(8), 1])
            assert (y.tolist(), n) == ([value] * 8, number)
        with pytest.raises(ArgumentError, match="WIR926"):
            program.boxed([torch.ones(8), 1.0])
    [result] = NativeLibrary(paths["hidden"])([torch.ones(8)])
    assert result is not None
    assert result.tolist() == [8] * 8


@pytest.mark.slow
def test_a_batch_for_several_instruction_sets(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 24)
    models = [nn.Linear(24, width, bias=False).eval() for width in (16, 20)]
    options = CppOptions(runtime="native", opt_level=0, cpu_isas=("avx2", "generic"))
    with torch.no_grad():
        artifacts = [capture(model, (x,)) for model in models]
        paths = [tmp_path / f"m{number}.so" for number in range(2)]
        build_libraries(
            [(cpp_wrapper.emit(a, options=options), path) for a, path in zip(artifacts, paths)], options
        )
        for model, path in zip(models, paths):
            torch.testing.assert_close(NativeLibrary(path)([x])[0], model(x))


class Softmax(nn.Module):
    """A product without kernels, or with one."""

    def __init__(self, has_kernel: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(24, 16, bias=has_kernel)
        self.has_kernel = has_kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[7, 24] to [7, 16]."""
        y: torch.Tensor = self.layer(x)
        return torch.tanh(y) if self.has_kernel else y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("has_kernel", "weights", "threads"), [(True, "inside", "openmp"), (False, "beside", "none")]
)
def test_a_project(has_kernel: bool, weights: str, threads: str, tmp_path: Path) -> None:
    model, x = Softmax(has_kernel).eval(), torch.randn(7, 24)
    options = CppOptions(
        runtime="native", opt_level=0, weights=weights, threads=threads, cpu_isas=("avx2", "generic")
    )
    with torch.no_grad():
        artifact, want = capture(model, (x,)), model(x)
    folder = cpp_wrapper.build(artifact, tmp_path / "project", options, source_only=True)
    include = f"-DTORCH_INCLUDE_DIR={torch_include_dirs()[0]}"
    build = tmp_path / "build"
    for words in (("-S", folder, "-B", build, include), ("--build", build, "--parallel", "2")):
        done = cmake(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    library = build / "model.so"
    names = [line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()]
    assert names == ["wir_get_api"]
    program = tmp_path / "program"
    source = Path(__file__).parent / "project.cpp"
    include = f"-I{wrapper_ir_native.include_path()}"
    output("g++", "-std=c++17", include, source, library, f"-Wl,-rpath,{build}", "-o", program)
    given = tmp_path / "x"
    given.write_text("\n".join(map(str, x.flatten().tolist())))
    found = torch.tensor([float(line) for line in output(program, given).splitlines()])
    torch.testing.assert_close(found.reshape(7, 16), want, rtol=1e-4, atol=1e-4)

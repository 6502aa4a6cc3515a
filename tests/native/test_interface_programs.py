"""Programs in C and C++ over native libraries, compiled without warnings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions
from tests.native.interface_case import FAST, capture_scaled, output

FOLDER = Path(__file__).parent
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{wrapper_ir_native.include_path()}")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpp_wrapper.build(capture_scaled(), tmp_path_factory.mktemp("native") / "m.so", FAST)


def compiled(folder: Path, source: str, *command: str) -> Path:
    """Compiles a program without warnings."""
    program = folder / "program"
    output(*command, *STRICT, FOLDER / source, "-o", program, "-ldl")
    return program


def test_a_c_program(library: Path, tmp_path: Path) -> None:
    program = compiled(tmp_path, "interface.c", "gcc", "-std=c99", "-D_GNU_SOURCE")
    lines = output(program, library).splitlines()
    assert lines == ["2 6 x f32[n, 4] 64", "9 1 5", "metadata"]


def test_a_cpp_program(library: Path, tmp_path: Path) -> None:
    program = compiled(tmp_path, "interface.cpp", "g++", "-std=c++17")
    assert output(program, library).splitlines() == ["WIR926", "18", "1", "9 5 0", "CPP304"]


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_two_models_in_one_program(tmp_path: Path, weights: str) -> None:
    first = capture_scaled()
    second = capture_scaled(torch.tensor([3.0, 1.0, 1.0, 1.0]))
    options = replace(FAST, weights=weights)
    for name, artifact in (("first", first), ("second", second)):
        cpp_wrapper.build(artifact, tmp_path / f"lib{name}.a", options)
        shown = output("nm", "-g", "--defined-only", tmp_path / f"lib{name}.a").split()
        assert [word for word in shown if word.startswith("wir")] == [f"wir_{name}_get_api"]
    archives = (tmp_path / "libfirst.a", tmp_path / "libsecond.a")
    libraries = ("-lstdc++", "-lm", "-lpthread", "-ldl", "-lgomp")
    program = tmp_path / "program"
    words = (*STRICT, f"-I{tmp_path}", FOLDER / "two_models.c", *archives, *libraries, "-o", program)
    output("gcc", "-std=c99", *words)
    assert output(program).splitlines() == ["first first 1 2", "second second 1 6"]


def test_static_libraries_have_names(tmp_path: Path) -> None:
    with pytest.raises(cpp_wrapper.EmitError, match=r"CPP503.*not an identifier"):
        cpp_wrapper.build(capture_scaled(), tmp_path / "lib-m.a", FAST)
    with pytest.raises(cpp_wrapper.EmitError, match=r"CPP503.*native runtime"):
        cpp_wrapper.build(capture_scaled(), tmp_path / "libm.a", CppOptions(opt_level=0))

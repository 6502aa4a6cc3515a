"""Programs in C and C++ over native libraries, compiled without warnings."""

from __future__ import annotations

from pathlib import Path

import pytest

import cpp_wrapper
import wrapper_ir_native
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

"""Vector functions of the native runtime: errors, special values, and completeness."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch

from cpp_wrapper import CppOptions
from cpp_wrapper.kernels.isa import isa_build_args
from cpp_wrapper.kernels.toolchain import find_toolchain, operator_recipe
from tools.vectors.measure import LANES, NAMES, VECTORS, Driver, bound_of, host_levels
from tools.vectors.minimax import main

_HEADERS = Path(torch.__file__).parent / "include" / "ATen" / "cpu" / "vec"
_FOLDERS = {"avx512": "vec512", "avx2": "vec256"}


@pytest.fixture(scope="module", params=host_levels())
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver(request.param, tmp_path_factory.mktemp("vectors"))


@pytest.mark.slow
@pytest.mark.parametrize("is_double", [False, True], ids=["float", "double"])
def test_errors_stay_below_their_bounds(driver: Driver, is_double: bool) -> None:
    wrong = []
    for name in NAMES:
        address = driver.find(name, is_double)
        if address is None:
            continue
        worst = driver.worst(address, name, is_double, 60_000 if name == "lgamma" else 300_000)
        if worst.error > bound_of(name, driver.level):
            wrong.append((name, worst))
    assert not wrong


def _compile(level: str, output: Path) -> None:
    recipe = operator_recipe(find_toolchain("g++"), isa_build_args("", [level]), CppOptions())
    command = (recipe.toolchain.command, *recipe.flags, "-c", str(VECTORS / "sleef.cpp"), "-o", str(output))
    subprocess.run(command, check=True)


def _symbols(output: Path, *arguments: str) -> set[str]:
    listing = subprocess.run(
        ["nm", *arguments, str(output)], check=True, capture_output=True, text=True
    ).stdout
    return {line.split()[-1] for line in listing.splitlines()}


@pytest.mark.slow
@pytest.mark.parametrize("level", LANES)
def test_each_function_of_torch_headers_is_defined(level: str, tmp_path: Path) -> None:
    headers = [path.read_text() for path in (_HEADERS / _FOLDERS[level]).glob("*.h")]
    called = {name for text in headers for name in re.findall(r"\bSleef_\w+", text)}
    # Fragments are prefixes that macros of the headers complete with the rest of a name.
    called = {name for name in called if re.search(rf"({'|'.join(LANES[level])})(_u\d\d)?$", name)}
    assert len(called) > 50
    output = tmp_path / "unit.o"
    _compile(level, output)
    assert called <= _symbols(output, "--defined-only")
    visible = subprocess.run(["readelf", "-sW", output], check=True, capture_output=True, text=True).stdout
    assert not [line for line in visible.splitlines() if " Sleef_" in line and " HIDDEN " not in line]


def test_units_without_vector_instructions_are_empty(tmp_path: Path) -> None:
    output = tmp_path / "unit.o"
    recipe = operator_recipe(find_toolchain("g++"), ("-march=x86-64",), CppOptions())
    command = (recipe.toolchain.command, *recipe.flags, "-c", str(VECTORS / "sleef.cpp"), "-o", str(output))
    subprocess.run(command, check=True)
    assert not _symbols(output, "--defined-only", "--extern-only")


@pytest.mark.slow
def test_polynomials_are_those_of_their_specifications() -> None:
    assert main(["--check"]) == 0

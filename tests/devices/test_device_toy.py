"""A device outside of torch's tree, found by its entry points: captured for, emitted, run and compiled like
any other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wrapper_ir.artifact.file import load
from wrapper_ir.plugins.registry import emitter
from wrapper_ir.text import parse_program, print_program

_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = _ROOT / "examples" / "device_toy"
_NAMES = [
    "captured_programs_are_for_the_device",
    "programs_run_everywhere",
    "compiled_models",
    "training",
    "compiled_functions_are_found_again",
    "programs_of_this_machine_have_its_architecture",
    "properties_are_those_of_the_target",
    "refusals",
]
_ENTRY_POINTS = """[wrapper_ir.devices]
toy = device_toy:DEVICE
broken = device_toy_that_is_not_there:DEVICE
wrong = device_toy:RUNTIME

[wrapper_ir.kernel_runtimes]
toy = device_toy:RUNTIME
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder written by a process with the device."""
    folder = tmp_path_factory.mktemp("toy")
    project = (_EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    assert 'toy = "device_toy:DEVICE"' in project
    assert 'toy = "device_toy:RUNTIME"' in project
    info = folder / "site" / "device_toy-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: device-toy\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(_ENTRY_POINTS)
    path = os.pathsep.join((str(_EXAMPLE), str(info.parent), str(_ROOT), os.environ.get("PYTHONPATH", "")))
    command = [sys.executable, "-m", "tests.devices.toy_worker", str(folder)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", _NAMES)
def test_cases(folder: Path, name: str) -> None:
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert list(results) == _NAMES
    assert not results[name], results[name]


def test_programs_need_no_device_to_be_read_and_written(folder: Path) -> None:
    program = load(folder / "artifact.wir").program
    assert parse_program(print_program(program)) == program
    source = emitter("python").emit(load(folder / "artifact.wir")).source
    assert 'toy = device_functions("toy")' in source
    assert "toy.set_device(0)" in source
    assert 'device="toy:0"' in source

"""Emitted folders run on their own; modules in the cache have stable names and can be stepped through."""

from __future__ import annotations

import inspect
import linecache
import os
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import artifact_of, find_runtime
from packages.py_wrapper.tests.py_programs import CASES

import py_wrapper
from py_wrapper import EMITTER, PyOptions
from py_wrapper.errors import CacheError
from wrapper_ir.errors import StoreWarning
from wrapper_ir_runtime.kernel_files import kernel_file_names, read_kernels, short_name

BY_NAME = {case.name: case for case in CASES}


def run_file(path: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, path.name, *args], cwd=path.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_folder_runs_as_a_script(tmp_path: Path) -> None:
    files = py_wrapper.write(artifact_of(BY_NAME["symbols"]), tmp_path, PyOptions(name="sizes"))
    assert [f.name for f in files] == ["sizes.py"]
    text = run_file(files[0], "--repeat", "3", "--s0", "6", "--s1", "9")
    assert "result 0: 6" in text
    assert "result 1: 9" in text
    assert "3 calls: best" in text


@pytest.mark.slow
def test_profile_has_a_range_for_every_operator(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    (path,) = py_wrapper.write(artifact_of(BY_NAME["unpack_whole"]), tmp_path)
    text = run_file(path, "--repeat", "2", "--profile", "--trace", str(trace))
    assert "aten::relu" in text
    assert '"relu"' in trace.read_text()


def test_constants_come_from_the_folder(tmp_path: Path) -> None:
    """The module needs neither the artifact nor py_wrapper."""
    case = BY_NAME["mutation"]
    files = py_wrapper.write(artifact_of(case), tmp_path, PyOptions(name="state"))
    assert {f.name for f in files} == {"state.py", "kernels.json", "increment.txt", "constants.safetensors"}
    script = """
import sys, torch, wrapper_ir.plugins.registry, wrapper_ir_runtime.parts as parts
class Runtime:
    def load_all(self, kernels, target):
        return {k.name: lambda x: x.add_(1) for k in kernels}
parts.load_kernels.__globals__["kernel_runtime"] = None
original = parts.load_kernels
parts.load_kernels = lambda kernels, target, *_: original(kernels, target, lambda kind: Runtime())
import state
print([r.tolist() for r in state.boxed([torch.zeros(4), torch.zeros(4)])])
print([r.tolist() for r in state.boxed([torch.zeros(4), torch.zeros(4)])])
assert "py_wrapper" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "[[[1.0, 3.0], [2.0, 4.0]], [1.0, 1.0, 1.0, 1.0]]"
    assert second.endswith("[2.0, 2.0, 2.0, 2.0]]")
    kernels = read_kernels(tmp_path)[1]
    assert kernels == tuple(k for k in case.program.kernels if k.name == "increment")


def test_kernel_files_have_distinct_names() -> None:
    (kernel,) = [k for k in BY_NAME["mlp"].program.kernels if k.name == "double"]
    import dataclasses

    kernels = [dataclasses.replace(kernel, name=name) for name in ("k/a", "k_a", "K_A", "x" * 300 + "_7")]
    names = list(kernel_file_names(kernels).values())
    assert len({n.lower() for n in names}) == 4
    assert all(len(n) < 80 for n in names)
    assert short_name("x" * 300 + "_7").endswith("_etc_7")


def test_cached_files_are_stable_and_shared(tmp_path: Path) -> None:
    options = PyOptions(cache_folder=tmp_path, find_runtime=find_runtime, name="mlp")
    first = py_wrapper.compile(artifact_of(BY_NAME["mlp"]), options)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("1/python/*/*/**/*") if p.is_file()}
    second = py_wrapper.compile(artifact_of(BY_NAME["mlp"]), options)
    after = {p: p.stat().st_mtime_ns for p in tmp_path.glob("1/python/*/*/**/*") if p.is_file()}
    assert before == after
    assert inspect.getsourcefile(first.boxed) == inspect.getsourcefile(second.boxed)
    assert sorted(p.name for p in before) == [
        "double.txt",
        "increment.txt",
        "kernels.json",
        "manifest.json",
        "mlp.py",
    ]


def test_edited_files_in_the_cache_are_written_again(tmp_path: Path) -> None:
    options = PyOptions(cache_folder=tmp_path, find_runtime=find_runtime, name="mlp")
    py_wrapper.compile(artifact_of(BY_NAME["mlp"]), options)
    (path,) = tmp_path.rglob("mlp.py")
    text = path.read_text()
    path.write_text(text + "breakpoint()\n")
    with pytest.warns(StoreWarning, match=r"WIR254.*set aside"):
        py_wrapper.compile(artifact_of(BY_NAME["mlp"]), options)
    assert path.read_text() == text
    (edited,) = tmp_path.glob("1/damaged/*/mlp.py")
    assert edited.read_text() == text + "breakpoint()\n"


def test_every_load_has_state_of_its_own() -> None:
    options = PyOptions(find_runtime=find_runtime)
    artifact = artifact_of(BY_NAME["mutation"])
    f, g = (py_wrapper.compile(artifact, options) for _ in range(2))
    for _ in range(2):
        f(torch.zeros(4), torch.zeros(4))
    assert f(torch.zeros(4), torch.zeros(4))[1].tolist() == [3.0] * 4
    assert g(torch.zeros(4), torch.zeros(4))[1].tolist() == [1.0] * 4


def test_a_debugger_sees_every_line(tmp_path: Path) -> None:
    options = PyOptions(cache_folder=tmp_path, find_runtime=find_runtime, name="mlp")
    f = py_wrapper.compile(artifact_of(BY_NAME["mlp"]), options)
    lines: list[str] = []

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename.startswith(str(tmp_path)) and frame.f_code.co_name == "main":
            if event == "line":
                lines.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())
            return trace
        return trace if event == "call" else None

    sys.settrace(trace)
    try:
        f(torch.randn(5, 8), torch.randn(8, 4))
    finally:
        sys.settrace(None)
    assert "torch.mm(x, w, out=buf0)" in lines
    assert any(line.startswith("double(buf0, buf1, ") for line in lines)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    artifact = artifact_of(BY_NAME["unpack_whole"])
    with pytest.raises(CacheError, match="PY202"):
        EMITTER.write(artifact, blocked)
    with pytest.warns(StoreWarning, match=r"WIR251.*cannot be written"):
        f = py_wrapper.compile(artifact, PyOptions(cache_folder=blocked / "cache"))
    source = inspect.getsourcefile(f.boxed)
    assert source is not None
    assert Path(source).is_file()


def test_settings_name_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "own"))
    f = py_wrapper.compile(artifact_of(BY_NAME["unpack_whole"]))
    source = inspect.getsourcefile(f.boxed)
    assert source is not None
    assert source.startswith(str(tmp_path / "own") + os.sep)

"""Operators of other libraries, registered in C++: called by the dispatcher, compared with the installed
schemas, without Python too.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import register_fake

import cpp_wrapper
from cpp_wrapper._compat import torch_include_dirs, torch_library_dir
from cpp_wrapper.library.batch import build_libraries
from cpp_wrapper.sources.program import emit_sources
from inductor_frontend import capture
from tests.common.torch_versions import since
from tests.cpp.cpp_case import FAST, artifact_of_text, stock_run
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError, NotSupportedError

SOURCE = Path(__file__).parent / "operators.cpp"


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of operators, loaded."""
    path = tmp_path_factory.mktemp("operators") / "operators.so"
    torchs = (
        *(f"-I{folder}" for folder in torch_include_dirs()),
        f"-L{torch_library_dir()}",
        "-ltorch_cpu",
        "-ltorch",
    )
    flags = ("-std=c++20", "-O0", "-w", "-fPIC", "-shared", f"-Wl,-rpath,{torch_library_dir()}")
    subprocess.run(["g++", *flags, SOURCE, "-o", path, *torchs], check=True)
    torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]  # torch's
    register_fake("cpp_tests::many")(
        lambda x, *_, other=None, **__: (x.clone(), (x if other is None else other).clone())
    )
    register_fake("cpp_tests::bump_")(lambda x, by: None)
    register_fake("cpp_tests::stack_first")(lambda tensors: tensors[0].clone())
    return path


class Uses(torch.nn.Module):
    """Arguments of every kind; a write; a failure where `x` has no rows."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """[rows, 3] and [3]."""
        own: Any = torch.ops.cpp_tests  # operators are found by name
        first, second = own.many(x.sin(), 2.5, x.shape[0], shifts=[1, 2], other=y, extra=0.5)
        third, fourth = own.many(y, -1.0, 7, False, mode="sum")
        own.bump_(first, x.shape[0])
        return first.cos(), second, third, fourth, own.stack_first([y, x])


X, Y = torch.arange(12.0).view(4, 3), torch.tensor([1.0, -2.0, 3.0])


@pytest.mark.slow
def test_operators_of_other_libraries_are_called(operators: Path, tmp_path: Path) -> None:
    rows = torch.export.Dim("rows", min=2, max=64)
    artifact = capture(Uses(), (X, Y), dynamic_shapes=({0: rows}, None))
    library = cpp_wrapper.build(artifact, tmp_path / "m.so", FAST)
    program = cpp_wrapper.load(library)
    for x in (X, X[:2] + 1):
        want = Uses()(x, Y)
        torch.testing.assert_close(program(x, Y), want)
        torch.testing.assert_close(stock_run(library, [x, Y]), list(want))


class Counts(torch.nn.Module):
    """Whole numbers, which the example's program reads."""

    def forward(self, x: Tensor) -> Tensor:
        """[rows], int64."""
        own: Any = torch.ops.cpp_tests  # operators are found by name
        y: Tensor = own.stack_first([x.float().sin()])
        return y


@pytest.mark.slow
def test_operators_of_other_libraries_are_called_without_python(
    operators: Path, cpp_runner: Path, tmp_path: Path
) -> None:
    x = torch.arange(4)
    package = cpp_wrapper.build(capture(Counts(), (x,)), tmp_path / "m.pt2", FAST)
    (tmp_path / "x").write_bytes(x.numpy().tobytes())
    words: list[str | Path] = [cpp_runner, package, tmp_path / "y", tmp_path / "x", "4"]
    alone = subprocess.run(words, capture_output=True, text=True, check=False)
    assert alone.returncode == 1
    assert "cpp_tests::stack_first" in alone.stderr
    subprocess.run(words, check=True, env={**os.environ, "LD_PRELOAD": str(operators)})
    found = torch.frombuffer(bytearray((tmp_path / "y").read_bytes()), dtype=torch.float32)
    torch.testing.assert_close(found, x.float().sin())


MANY = (
    "many(Tensor x, float factor, SymInt count, bool flag=True, *, str mode='sum', int[] shifts=[], Tensor? other=None, "
    "float? extra=None) -> (Tensor, Tensor)"
)
# Schema, arguments, the code and words of the refusal.
REFUSED = {
    "another_type": ("stack_first(Tensor tensors) -> Tensor", "%x", "WIR919", "called as (Tensor) -> (Tensor)"),
    "an_argument_less": ("many(Tensor x, float factor) -> (Tensor, Tensor)", "%x, 2.0", "WIR919", "it has an argument count"),
    "a_default_less": (MANY.replace(", float? extra=None", ""), "%x, 1.0, 2", "WIR919", "another schema"),
    "a_hidden_write": ("bump_(Tensor x, SymInt by) -> ()", "%x, 2", "WIR919", "it writes its argument x"),
    "no_operator": ("absent(Tensor x) -> Tensor", "%x", "WIR914", "torch has no operator cpp_tests::absent"),
}  # fmt: skip
FAILING = (MANY, '%x, 1.0, 2, mode="matmul"')


def _artifact(schema: str, arguments: str) -> Artifact:
    result = "" if schema.endswith("()") else "%r = "
    kind = {"()": "", "r)": " : results"}.get(schema[-2:], " : f32[4]")
    drop = "" if not result else "  drop %r\n"
    call = f"  {result}call cpp_tests::{schema.partition('(')[0]}({arguments}){kind}\n{drop}"
    return artifact_of_text(
        f'extern "cpp_tests::{schema}"\n\nfunc @main(%x: f32[4]) {{\n{call}  return %x\n}}\n'
    )


@pytest.fixture(scope="module")
def libraries(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Programs of one call each."""
    folder = tmp_path_factory.mktemp("libraries")
    calls = {name: _artifact(*row[:2]) for name, row in REFUSED.items()} | {"failing": _artifact(*FAILING)}
    paths = {name: folder / f"{name}.so" for name in calls}
    build_libraries([(cpp_wrapper.emit(artifact), paths[name]) for name, artifact in calls.items()], FAST)
    return paths


@pytest.mark.parametrize("name", REFUSED)
def test_operators_that_are_installed_with_another_schema_are_refused(
    name: str, libraries: Mapping[str, Path]
) -> None:
    """The dispatcher would read arguments that were not passed."""
    _, _, code, words = REFUSED[name]
    with pytest.raises(NotSupportedError, match=code) as caught:
        cpp_wrapper.load(libraries[name])
    assert words in str(caught.value)


def test_errors_of_operators_keep_their_text(
    libraries: Mapping[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """Before torch 2.13 a library cannot query it: torch writes it only to standard error."""
    program = cpp_wrapper.load(libraries["failing"])
    text = ": .*mode is matmul" if since("2.13") else "$"
    with pytest.raises(ExecutionError, match=rf"\[WIR927\] cpp_tests::many failed{text}"):
        program(torch.ones(4))
    assert since("2.13") or "mode is matmul" in capfd.readouterr().err


MIXED = {
    "list_last": ("(Tensor, Tensor[])", lambda x: (x + 1, [x + 2, x + 3]), "[1][1]", 3),
    "list_first": ("(Tensor[], Tensor)", lambda x: ([x + 2, x + 3], x + 1), "[1]", 1),
    "number": ("(Tensor, int)", lambda x: (x + 1, 7), "[0]", 1),
    "optional": ("(Tensor?, Tensor[])", lambda x: (None, [x + 2]), "[1][0]", 2),
    "optional_tensor": ("(Tensor?, Tensor[])", lambda x: (x + 4, [x + 2]), "[0]", 4),
}
"""Results of operators, the used parts, and the generated code."""


@pytest.fixture(scope="module")
def mixed_returns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Path]]:
    """Programs of one call each, of operators in Python."""
    library: Any = torch.library.Library("cpp_mixed", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's own
    artifacts = {}
    for name, (returns, function, path, _) in MIXED.items():
        library.define(f"{name}(Tensor x) -> {returns}")
        library.impl(name, function, "CPU")
        text = f"  %r = call cpp_mixed::{name}(%x) : results\n  %y = unpack %r{path} : f32[4]\n  return %y"
        extern = f'extern "cpp_mixed::{name}(Tensor x) -> {returns}"'
        artifacts[name] = artifact_of_text(f"{extern}\n\nfunc @main(%x: f32[4]) {{\n{text}\n}}\n")
    folder, options = tmp_path_factory.mktemp("mixed"), replace(FAST, python_operators=True)
    paths = {name: folder / f"{name}.so" for name in artifacts}
    sources = [(emit_sources(a, None, options), paths[name]) for name, a in artifacts.items()]
    build_libraries(sources, options)
    yield paths
    library._destroy()


@pytest.mark.parametrize("name", MIXED)
def test_values_of_several_types_are_returned(name: str, mixed_returns: Mapping[str, Path]) -> None:
    """Torch's dispatcher reads them as the types of the schema in reverse: see `sources/bridge.py`."""
    program = cpp_wrapper.load(mixed_returns[name])
    for _ in range(2):
        torch.testing.assert_close(program(torch.zeros(4))[0], torch.full((4,), float(MIXED[name][3])))

"""Kernels with a source for each of several instruction sets: chosen by the library, refused by name if none
can run.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cpp_wrapper
from cpp_wrapper import IsaError
from cpp_wrapper._compat import open_runner
from cpp_wrapper.kernels.isa import ISAS, Isa
from tests.cpp.cpp_case import FAST, artifact_of_text
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact

TEXT = """
kernel cpp @one entry "kernel" (write f32* target) {{{
// replaced
}}}
kernel cpp @two entry "kernel" (write f32* target) {{{
// replaced
}}}

func @main(%x: f32[1]) {
  %a = alloc f32[1]
  launch @one(%a)
  %b = alloc f32[1]
  launch @two(%b)
  return %a, %b
}
"""
NOWHERE, HERE, HIDDEN, GENERIC = ("nowhere",), ("here",), ("hidden",), ()


@pytest.fixture(autouse=True)
def invented_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instruction sets of every processor and of none, so that tests do not depend on the machine."""
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    monkeypatch.setitem(ISAS, "nowhere", Isa(needs=frozenset({"wir_none", "fpu"}), flags=()))
    monkeypatch.setitem(ISAS, "here", Isa(needs=frozenset(), flags=("-DHERE",)))
    monkeypatch.setitem(ISAS, "hidden", Isa(needs=frozenset({"fpu"}), flags=("-DHIDDEN",)))


def _artifact(one: tuple[tuple[str, ...], ...], two: tuple[tuple[str, ...], ...]) -> Artifact:
    """Each source writes its number, from 1 on."""
    artifact = artifact_of_text(TEXT)
    kernels = []
    for kernel, sets in zip(artifact.program.kernels, (one, two), strict=True):
        assert isinstance(kernel, ir.CppKernel)
        first, *rest = (
            ir.CppSource(source=f'extern "C" void kernel(float* target) {{ *target = {number}; }}\n', isa=isa)
            for number, isa in enumerate(sets, 1)
        )
        kernels.append(replace(kernel, source=first.source, isa=first.isa, variants=tuple(rest)))
    return replace(artifact, program=replace(artifact.program, kernels=tuple(kernels)))


def _values(library: Path) -> list[float]:
    return [float(x) for x in cpp_wrapper.load(library)(torch.ones(1))]


def test_the_first_that_can_run_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = _artifact((NOWHERE, HERE, GENERIC), (HIDDEN, HERE))
    library = cpp_wrapper.build(artifact, tmp_path / "m.so", FAST)
    assert _values(library) == [2, 1]
    assert [float(x) for x in open_runner(library).run([torch.ones(1)])] == [2, 1]
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")  # kernels must not use sets that torch may not use
    other = tmp_path / "other.so"
    shutil.copy(library, other)  # the same file is the same code, which has chosen
    assert _values(other) == [2, 2]


def test_a_host_that_can_run_none_is_refused_by_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    library = cpp_wrapper.build(_artifact((NOWHERE,), (NOWHERE, GENERIC)), tmp_path / "m.so", FAST)
    assert cpp_wrapper.metadata(library)["instructions"] == [["fpu wir_none"]]
    with pytest.raises(IsaError, match=r"CPP201.*lacks: wir_none$"):
        cpp_wrapper.load(library)
    with pytest.raises(RuntimeError):
        open_runner(library)  # it does not query the reason
    assert "CPP201" in capfd.readouterr().err

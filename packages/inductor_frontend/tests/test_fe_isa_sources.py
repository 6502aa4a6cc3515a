"""C++ kernels with a source for each instruction set, for other hosts than this machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import cpu_vec_isa
from torch._inductor.cpu_vec_isa import VecISA

import py_wrapper
import wrapper_ir
from cpp_wrapper.kernels.compile import Unit, compile_library
from cpp_wrapper.kernels.isa import ISAS, choose_source, host_features, isa_build_args
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.toolchain import find_toolchain, kernel_recipe
from inductor_frontend import CaptureError, capture
from inductor_frontend.devices.isa_sources import ISA_NAMES, joined
from wrapper_ir import ir
from wrapper_ir_runtime.parts import open_parts

ALL = ("generic", "avx2", "avx512")
AVX2, AVX512 = ISAS["avx2"].needs, ISAS["avx512"].needs


def model(x: torch.Tensor) -> torch.Tensor:
    return x.exp().sum(-1, keepdim=True) + x.relu()


def kernels_of(artifact: wrapper_ir.Artifact) -> list[ir.CppKernel]:
    kernels = [k for k in artifact.program.kernels if isinstance(k, ir.CppKernel)]
    assert kernels
    return kernels


def test_each_kernel_has_a_source_for_each_the_widest_first() -> None:
    artifact = capture(model, (torch.randn(8, 64),), cpu_isas=ALL)
    for kernel in kernels_of(artifact):
        assert [source.isa for source in kernel.sources] == [("avx512",), ("avx2",), ()]
        wide, narrow, plain = (source.source for source in kernel.sources)
        assert "static_cast<int64_t>(16)" in wide
        assert "static_cast<int64_t>(8)" in narrow
        assert "Vectorized" not in plain


def test_nothing_is_asked_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its compiler nor its processor is queried, and the state is restored."""
    before = cpu_vec_isa.pick_vec_isa

    def asked(*args: object) -> bool:
        raise AssertionError("a build for an instruction set")

    monkeypatch.setattr(VecISA, "check_build", asked)
    monkeypatch.setattr("inductor_frontend.devices.vector_isa.supports", asked)
    monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", asked)
    assert len(kernels_of(capture(model, (torch.randn(8, 64),), cpu_isas=ALL))[0].sources) == 3
    assert cpu_vec_isa.pick_vec_isa is before


def test_they_are_stored_and_printed(tmp_path: Path) -> None:
    artifact = capture(nn.Sequential(nn.Linear(16, 32), nn.ReLU()), (torch.randn(4, 16),), cpu_isas=ALL)
    wrapper_ir.save(artifact, tmp_path / "m.wir")
    assert wrapper_ir.load(tmp_path / "m.wir").program == artifact.program
    text = wrapper_ir.print_program(artifact.program)
    assert 'variant isa("avx2") {{{' in text
    assert wrapper_ir.parse_program(text) == artifact.program
    wrapper_ir.verify(artifact)
    main_file = py_wrapper.EMITTER.write(artifact, tmp_path / "folder")[0]
    assert open_parts(str(main_file), None).kernels == artifact.program.kernels


@pytest.mark.parametrize("hidden", [frozenset(), AVX512 - AVX2, AVX512], ids=["none", "avx512", "avx2"])
def test_results_are_equal_whichever_is_taken(
    monkeypatch: pytest.MonkeyPatch, hidden: frozenset[str]
) -> None:
    artifact = capture(model, (torch.randn(8, 67),), dynamic_shapes=None, cpu_isas=ALL)
    here = host_features()
    monkeypatch.setattr("cpp_wrapper.kernels.runtime.host_features", lambda: here - hidden)
    x = torch.randn(8, 67)
    torch.testing.assert_close(py_wrapper.compile(artifact)(x), model(x))


@pytest.mark.slow
@pytest.mark.parametrize("features", [AVX512, AVX2, frozenset[str]()], ids=["avx512", "avx2", "generic"])
def test_every_source_compiles_here(tmp_path: Path, features: frozenset[str]) -> None:
    """With the flags of its host; the output is not run."""
    [kernel] = kernels_of(capture(model, (torch.randn(8, 64),), cpu_isas=ALL))
    variant = choose_source(kernel, features)
    recipe = kernel_recipe(find_toolchain("g++"), isa_build_args("k", variant.isa), CppOptions(opt_level=0))
    source, output = tmp_path / "k.cpp", tmp_path / "k.so"
    source.write_text(variant.source)
    compile_library(recipe, Unit(what="k", source=source, output=output), 300.0)
    assert output.read_bytes()[:4] == b"\x7fELF"


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"FE103.*'vliw'(.|\n)*avx512, avx2, generic"):
        capture(model, (torch.randn(8, 64),), cpu_isas=("avx2", "vliw"))
    assert ISA_NAMES == ("avx512", "avx2", "generic")


@pytest.mark.parametrize(
    ("other", "said"),
    [(lambda x: x.exp() + x.neg(), r"\n  \| -kernel cpp @"), (lambda x: (model(x),), "their signatures")],
)
def test_programs_that_differ_otherwise_are_refused(other: Callable[[Any], Any], said: str) -> None:
    x = (torch.randn(8, 64),)
    one, two = capture(model, x), capture(other, x)
    with pytest.raises(CaptureError, match=r"FE108.*avx512 and avx2") as caught:
        joined([("avx512", one), ("avx2", two)])
    assert re.search(said, str(caught.value))
    same = replace(one, program=replace(one.program))
    assert len(kernels_of(joined([("avx512", one), ("avx2", same)]))[0].sources) == 2

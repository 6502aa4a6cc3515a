"""Kernels with a source for each instruction set, and the headers that sources need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from packages.cpp_wrapper.tests.conftest import Bench, Scale

from cpp_wrapper.errors import CompileError, IsaError
from cpp_wrapper.kernels.compile import Unit, compile_library
from cpp_wrapper.kernels.isa import ISAS, choose_source, host_features, isa_build_args
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.toolchain import find_toolchain, kernel_recipe
from wrapper_ir import ir

PREFIX = "torch/csrc/inductor/cpp_prefix.h"
AVX2, AVX512 = ISAS["avx2"].needs, ISAS["avx512"].needs
GUARD = "#if !defined(CPU_CAPABILITY_{0})\n#error not built for {0}\n#endif\n"


def both(scale: Scale) -> ir.CppKernel:
    """Multiplies by 5 with AVX-512, by 3 with AVX2, by 2 everywhere else."""
    best, next_ = (
        scale("k", factor, GUARD.format(name)).source for factor, name in ((5, "AVX512"), (3, "AVX2"))
    )
    variants = (ir.CppSource(source=next_, isa=("avx2",)), ir.CppSource(source=scale("k", 2).source))
    return replace(scale("k"), source=best, isa=("avx512",), variants=variants)


@pytest.mark.parametrize(
    ("features", "isa"), [(AVX512 | {"amx_tile"}, ("avx512",)), (AVX2, ("avx2",)), (frozenset({"sse2"}), ())]
)
def test_the_first_that_the_host_has_is_chosen(
    scale: Scale, features: frozenset[str], isa: tuple[str, ...]
) -> None:
    kernel = both(scale)
    chosen = choose_source(kernel, features)
    assert chosen == replace(
        kernel, variants=(), source=next(s.source for s in kernel.sources if s.isa == isa), isa=isa
    )


def test_a_host_that_has_none_is_refused(scale: Scale) -> None:
    kernel = both(scale)
    with pytest.raises(IsaError, match=r"CPP201.*'k'.*avx2.*lacks avx2"):
        choose_source(replace(kernel, variants=kernel.variants[:1]), frozenset({"avx512f"}))
    odd = (*kernel.variants, ir.CppSource(source="", isa=("vliw",)))
    with pytest.raises(IsaError, match=r"CPP202.*'vliw'"):
        choose_source(replace(kernel, variants=odd), AVX512)


@pytest.mark.parametrize(
    ("hidden", "factor"),
    [(frozenset(), {True: 5, False: 3}), (AVX512 - AVX2, {True: 3, False: 3}), (AVX512, {True: 2, False: 2})],
)
def test_it_runs(
    bench: Bench,
    scale: Scale,
    monkeypatch: pytest.MonkeyPatch,
    hidden: frozenset[str],
    factor: dict[bool, int],
) -> None:
    """On this host, with all instructions and with some hidden from the runtime."""
    here = host_features()
    if not here >= AVX2:
        pytest.skip("the host has no AVX2")
    monkeypatch.setattr("cpp_wrapper.kernels.runtime.host_features", lambda: here - hidden)
    kernel = bench.runtime().load(both(scale), ir.Target())
    x, out = torch.arange(8.0), torch.empty(8)
    kernel(x, out, 8)
    assert torch.equal(out, x * factor[here >= AVX512])


@pytest.mark.parametrize("features", [AVX512, AVX2, frozenset({"sse2"})])
def test_every_source_compiles_on_any_host(
    bench: Bench, scale: Scale, tmp_path: Path, features: frozenset[str]
) -> None:
    """The compiler needs no such host; its output is not run."""
    chosen = choose_source(both(scale), features)
    toolchain = find_toolchain(bench.settings.compiler)
    recipe = kernel_recipe(toolchain, isa_build_args("k", chosen.isa), CppOptions())
    source, output = tmp_path / "k.cpp", tmp_path / "k.so"
    source.write_text(chosen.source)
    compile_library(recipe, Unit(what="k", source=source, output=output), 60.0)
    assert output.read_bytes()[:4] == b"\x7fELF"


def test_sources_share_a_cache_with_kernels_of_one_source(bench: Bench, scale: Scale) -> None:
    """The content hash depends on the chosen source only."""
    kernel = both(scale)
    bench.runtime().load(choose_source(kernel, host_features()), ir.Target())
    runs = len(bench.kernel_runs())
    bench.runtime().load(kernel, ir.Target())
    assert len(bench.kernel_runs()) == runs


def requiring(scale: Scale, name: str, sha256: str = "", body: str = "") -> ir.CppKernel:
    return replace(
        scale("k", 2, body), requires=(ir.Requirement(name=name, origin="torch 1.0", sha256=sha256),)
    )


def test_a_header_that_is_missing_is_named(bench: Bench, scale: Scale) -> None:
    with pytest.raises(CompileError, match=r"CPP105.*'k' includes no/such.h \(of torch 1.0\)"):
        bench.runtime().load(requiring(scale, "no/such.h"), ir.Target())
    assert bench.kernel_runs() == []


def test_another_header_is_another_library(
    bench: Bench, scale: Scale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same source with a changed header is recompiled."""
    header = tmp_path / "include" / "h.h"
    header.parent.mkdir()
    monkeypatch.setattr("cpp_wrapper.kernels.runtime.torch_include_dirs", lambda: (header.parent,))
    for text, runs in (("// one\n", 1), ("// one\n", 1), ("// two\n", 2)):
        header.write_text(text)
        bench.runtime().load(requiring(scale, "h.h", "0" * 64), ir.Target())
        assert len(bench.kernel_runs()) == runs


def test_a_refused_source_says_which_header_has_changed(bench: Bench, scale: Scale) -> None:
    broken = requiring(scale, PREFIX, "0" * 64, "int x = gone_in_this_version();")
    with pytest.raises(CompileError, match=rf"CPP102(.|\n)*hint: .*written for {PREFIX} of torch 1.0"):
        bench.runtime().load(broken, ir.Target())

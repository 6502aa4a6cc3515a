"""Builds: the number of compiler runs, errors, and remaining files."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from cpp_wrapper import CompileError, CppOptions, IsaError, KernelError
from cpp_wrapper.kernels.isa import ISAS
from wrapper_ir import ir

if TYPE_CHECKING:
    from packages.cpp_wrapper.tests.conftest import Bench, Scale


@pytest.mark.slow
def test_one_run_for_many_kernels_and_none_the_second_time(bench: Bench, scale: Scale) -> None:
    kernels = [scale(f"k{i}", i) for i in range(6)]
    loaded = bench.runtime().load_all(kernels, ir.Target())
    out = torch.empty(3)
    for i, kernel in enumerate(kernels):
        loaded[kernel.name](torch.ones(3), out, 3)
        assert out.tolist() == [float(i)] * 3
    assert len(bench.kernel_runs()) == 1
    assert list(bench.runtime().load_all(list(reversed(kernels)), ir.Target())) == [
        f"k{i}" for i in reversed(range(6))
    ]
    assert len(bench.kernel_runs()) == 1


def test_later_programs_hit_kernel_by_kernel(bench: Bench, scale: Scale) -> None:
    runtime = bench.runtime()
    runtime.load_all([scale("a", 1), scale("b", 2)], ir.Target())
    loaded = runtime.load_all([scale("renamed", 2), scale("c", 3)], ir.Target())
    assert len(bench.kernel_runs()) == 2
    assert len(bench.libraries()) == 2
    out = torch.empty(1)
    loaded["renamed"](torch.ones(1), out, 1)
    assert out.item() == 2


def test_what_is_part_of_the_key(bench: Bench, scale: Scale) -> None:
    """Options, parameters and instruction sets separate kernels; a kernel's name does not."""
    kernel = scale("k")
    base = bench.runtime(CppOptions(opt_level=0))
    base.load(kernel, ir.Target())
    base.load(replace(kernel, name="other"), ir.Target())
    assert len(bench.kernel_runs()) == 1
    bench.runtime(CppOptions(opt_level=1)).load(kernel, ir.Target())
    aliased = replace(kernel.params[1], may_alias=("in0",))
    base.load(replace(kernel, params=(kernel.params[0], aliased, kernel.params[2])), ir.Target())
    assert len(bench.kernel_runs()) == 3
    bench.runtime(CppOptions(opt_level=0, check_args=False, timeout=9)).load(kernel, ir.Target())
    assert len(bench.kernel_runs()) == 3, "options of the launch are not part of the key"


HOSTILE = (
    '"; static_assert(false, "',
    "x\n#error fired\n",
    "??/",
    "a\\",
    "*/",
    "\0nul",
    "\ud800",
    "\u202e\u2028\r",
    "n" * 300,
)


def test_names_are_text(bench: Bench, scale: Scale) -> None:
    kernels = []
    for number, name in enumerate(HOSTILE):
        kernel = scale(name, number + 1)
        kernels.append(
            replace(kernel, params=tuple(replace(p, name=f"{p.name}{name}") for p in kernel.params))
        )
    loaded = bench.runtime().load_all(kernels, ir.Target())
    out = torch.empty(2)
    for number, name in enumerate(HOSTILE):
        loaded[name](torch.ones(2), out, 2)
        assert out.tolist() == [number + 1.0] * 2
    assert len(bench.kernel_runs()) == 1, "the unit was refused, and its kernels were built one by one"


def test_no_kernels_need_no_compiler(bench: Bench) -> None:
    runtime = bench.runtime()
    runtime.settings = replace(bench.settings, compiler="absent-compiler")
    assert runtime.load_all([], ir.Target()) == {}


def test_invalid_source(bench: Bench, scale: Scale) -> None:
    """The others of the unit are built; the message names the invalid kernel and its own lines."""
    broken = scale("fused_add", body="int broken = undefined_name;")
    with pytest.raises(CompileError) as caught:
        bench.runtime().load_all([scale("good", 5), broken], ir.Target())
    error = caught.value
    assert error.code == "CPP102"
    assert "the compiler refused kernel 'fused_add'" in error.message
    assert "fused_add.cpp:3:" in error.message
    assert "undefined_name" in error.message
    assert "| " in error.message
    runs = len(bench.kernel_runs())
    bench.runtime().load(scale("good", 5), ir.Target())
    assert len(bench.kernel_runs()) == runs, "the good kernel is in the cache"
    assert_clean(bench)


def test_command_in_the_message_can_be_repeated(bench: Bench, scale: Scale) -> None:
    with pytest.raises(CompileError) as caught:
        bench.runtime().load(scale("k", body="int broken = undefined_name;"), ir.Target())
    line = next(line for line in caught.value.message.splitlines() if line.startswith("  command: "))
    again = subprocess.run(
        shlex.split(line.removeprefix("  command: ")), capture_output=True, text=True, check=False
    )
    assert again.returncode != 0
    assert "undefined_name" in again.stderr


def param(kind: ir.ParamKind, dtype: ir.DType, access: ir.Access = ir.Access.NONE) -> ir.KernelParam:
    return ir.KernelParam(name="p", kind=kind, dtype=dtype, access=access)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ((), "the definition has 0 parameters, the entry has another number"),
        (
            (param(ir.ParamKind.POINTER, ir.DType.F64, ir.Access.READ),),
            "parameter 0 'p' is read f64* in the definition",
        ),
        (
            (param(ir.ParamKind.POINTER, ir.DType.F32, ir.Access.WRITE),),
            "parameter 0 'p' is write f32* in the definition",
        ),
        (
            (param(ir.ParamKind.SCALAR, ir.DType.I64),),
            "parameter 0 'p' is i64 in the definition, not in the entry",
        ),
    ],
)
def test_invalid_parameters(bench: Bench, params: tuple[ir.KernelParam, ...], text: str) -> None:
    source = 'extern "C" void kernel(const float* p) {}'
    kernel = ir.CppKernel(name="k", params=params, source=source, entry="kernel")
    with pytest.raises(CompileError, match="CPP102") as caught:
        bench.runtime().load(kernel, ir.Target())
    assert text in caught.value.message


def test_sources_that_cannot_share_a_unit_are_built_alone(bench: Bench, scale: Scale) -> None:
    """Reopening `std` cannot be done inside a namespace: the shared unit is refused, each kernel alone is not."""
    late = scale("late", 7, body="int before;\n#include <functional>")
    body = "namespace std { template <class T> struct mine; template <> struct mine<int> { static constexpr int v = 1; }; }\n"
    odd = scale(
        "odd",
        3,
        body=body + "static_assert(std::mine<int>::v == 1); static_assert(::std::mine<int>::v == 1);",
    )
    loaded = bench.runtime().load_all([scale("plain", 2), odd, late], ir.Target())
    out = torch.empty(1)
    for name, value in (("plain", 2), ("odd", 3), ("late", 7)):
        loaded[name](torch.ones(1), out, 1)
        assert out.item() == value
    assert len(bench.libraries()) == 3
    assert_clean(bench)


def test_equal_helpers_in_one_unit_do_not_meet(bench: Bench, scale: Scale) -> None:
    kernels = [
        scale(
            f"k{i}",
            1,
            body=f"struct Helper {{ int x[{i + 1}]; }}; int helper() {{ return {i}; }}\nstatic int state = {i};",
        )
        for i in range(3)
    ]
    bench.runtime().load_all(kernels, ir.Target())
    assert len(bench.kernel_runs()) == 1


def test_missing_compiler(bench: Bench, scale: Scale) -> None:
    runtime = bench.runtime()
    runtime.settings = replace(bench.settings, compiler="absent-compiler")
    with pytest.raises(CompileError, match=r"CPP101.*absent-compiler(.|\n)*WRAPPER_IR_CXX"):
        runtime.load(scale("k"), ir.Target())


def test_compiler_that_does_not_work(bench: Bench, scale: Scale) -> None:
    runtime = bench.runtime()
    runtime.settings = replace(bench.settings, compiler="false")
    with pytest.raises(CompileError, match="CPP101"):
        runtime.load(scale("k"), ir.Target())


def test_time_limit(bench: Bench, scale: Scale) -> None:
    with pytest.raises(CompileError, match=r"CPP104.*'k' took longer than 0.001 s"):
        bench.runtime(CppOptions(timeout=0.001)).load(scale("k"), ir.Target())
    assert_clean(bench)


def test_what_a_compiler_started_ends_with_it(bench: Bench, scale: Scale, tmp_path: Path) -> None:
    """g++ is a driver; the actual compiler is its child."""
    driver, child = tmp_path / "driver", tmp_path / "child"
    driver.write_text(
        f'#!/bin/sh\ntest "$1" = -v && exec g++ -v\nsleep 100 &\necho $! > {child}.new\nmv {child}.new {child}\nwait\n'
    )
    driver.chmod(0o755)
    runtime = bench.runtime(CppOptions(timeout=1))
    runtime.settings = replace(bench.settings, compiler=str(driver))
    with pytest.raises(CompileError, match="CPP104"):
        runtime.load(scale("k"), ir.Target())
    status = Path(f"/proc/{child.read_text().strip()}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_invalid_kernels(bench: Bench, scale: Scale) -> None:
    runtime = bench.runtime()
    with pytest.raises(KernelError, match=r"CPP401.*two different kernels are named 'k'"):
        runtime.load_all([scale("k", 1), scale("k", 2)], ir.Target())
    with pytest.raises(KernelError, match=r"CPP401.*kind 'foreign'"):
        runtime.load(ir.ForeignKernel(name="f", params=(), runtime="x", payload=""), ir.Target())
    with pytest.raises(IsaError, match="CPP202"):
        runtime.load(replace(scale("k"), isa=("vliw",)), ir.Target())
    assert bench.runs() == []


def test_instructions_that_the_host_lacks_never_reach_the_compiler(
    bench: Bench, scale: Scale, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "DEFAULT")
    for isa in ("avx2", "avx512"):
        assert isa in ISAS
        with pytest.raises(IsaError, match=f"CPP201.*'k' was written for {isa}"):
            bench.runtime().load(replace(scale("k"), isa=(isa,)), ir.Target())
    assert bench.runs() == []


def assert_clean(bench: Bench) -> None:
    """No build in progress, no half-written file."""
    for folder in ("work", "removed", "damaged"):
        assert list((bench.cache_folder / "1" / folder).glob("*")) == []
    assert list(bench.cache_folder.rglob(".*")) == []

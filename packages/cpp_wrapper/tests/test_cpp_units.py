"""Translation units: kernels that may share one, their distribution, and the text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cpp_wrapper.errors import KernelError
from cpp_wrapper.kernels.source import SCALAR_DTYPES, Member, check_kernel, groups, shared_unit, single_unit
from wrapper_ir import ir

KERNEL = ir.CppKernel(
    name="triple",
    params=(
        ir.KernelParam(
            name="out0", kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=ir.Access.READWRITE
        ),
        ir.KernelParam(name="n", kind=ir.ParamKind.SCALAR, dtype=ir.DType.I64),
    ),
    source='// head\n#include <cstdint>\n\nextern "C" void kernel(float* out0, int64_t n)\n{ *out0 *= 3; }\n',
    entry="kernel",
)


def member(number: int, source: str = KERNEL.source) -> Member:
    return Member(f"{number:064x}", replace(KERNEL, name=f"k{number}", source=source))


def test_shared_unit_renames_entries_and_hoists_includes() -> None:
    text = shared_unit([member(1), member(2)])
    assert text.startswith("#include <cstdint>\n")
    assert text.count("#define kernel wir_") == text.count("#undef kernel") == 2
    first = member(1).symbol
    assert f'namespace {first}_space {{\n#line 1 "k1.cpp"\n// head\n\n\nextern' in text, (
        "line numbers must stay"
    )
    assert f"void {first}(const wrapper_ir_launch::Slot* slots)" in text


def test_single_unit_keeps_the_source_and_renames_its_entry() -> None:
    """After the includes: libraries may have several units, whose entries all have one name."""
    kernel = member(7)
    head, _, rest = single_unit(kernel).partition(f"#define kernel {kernel.symbol}_entry\n")
    assert head == "#include <cstdint>\n"
    source = KERNEL.source.replace("#include <cstdint>", "").rstrip()
    assert rest.startswith(f'#line 1 "k7.cpp"\n{source}\n#undef kernel\n')


def test_tables_of_torchs_header_are_defined_once_a_type_and_filled_by_the_kernels_that_read_them() -> None:
    """A kernel without the header has no tables, even if it names such a type."""
    header = "#include <torch/csrc/inductor/cpp_prefix.h>\n"
    reads = (
        "// WelfordHelper<float, 4096> a; WelfordHelper<at::vec::Vectorized<float>, 4096> b;\n"
        + KERNEL.source
    )
    text = shared_unit([member(1, header + reads), member(2, header + reads), member(3)])
    assert text.count("WelfordHelper<float, 4096>::weight_recps{};") == 1
    assert text.count("WelfordHelper<at::vec::Vectorized<float>, 4096>::weight_recps{};") == 1
    assert text.count("  wrapper_ir_launch::fill_reciprocals<WelfordHelper<float, 4096>, 4096>();") == 2
    assert "weight_recps" not in single_unit(member(4, reads))


@pytest.mark.parametrize(
    "line",
    [
        "#define N 4",
        "#if 1",
        "  #  undef N",
        "#pragma once",
        "#pragma GCC push_options",
        "int x;\n#include <cmath>",
    ],
)
def test_sources_with_preprocessor_state_stand_alone(line: str) -> None:
    odd = member(1, f"#include <cstdint>\n{line}\n{KERNEL.source}")
    units = groups([odd, member(2), member(3)], jobs=1)
    assert sorted(len(unit) for unit in units) == [1, 2]
    assert [odd] in units


@pytest.mark.parametrize("line", ["#pragma omp parallel for", "    #pragma GCC ivdep", "#pragma unroll 4"])
def test_loop_pragmas_do_no_harm(line: str) -> None:
    assert len(groups([member(1, KERNEL.source + line), member(2)], jobs=4)) == 1


def test_units_multiply_only_when_kernels_outweigh_the_headers() -> None:
    small = [member(i) for i in range(50)]
    assert len(groups(small, jobs=8)) == 1
    padding = "// " + "x" * 30_000
    large = [member(i, KERNEL.source + padding) for i in range(20)]
    units = groups(large, jobs=3)
    assert len(units) == 3
    assert max(map(len, units)) - min(map(len, units)) <= 1
    assert sorted(m.key for unit in units for m in unit) == [m.key for m in large]


@pytest.mark.parametrize("entry", ["", "1k", "a b", "k;", "x\n"])
def test_invalid_entry_is_refused(entry: str) -> None:
    with pytest.raises(KernelError, match="CPP401"):
        check_kernel(replace(KERNEL, entry=entry))


@pytest.mark.parametrize("dtype", [d for d in ir.DType if d not in SCALAR_DTYPES])
def test_invalid_scalar_dtype_is_refused(dtype: ir.DType) -> None:
    params = (ir.KernelParam(name="x", kind=ir.ParamKind.SCALAR, dtype=dtype),)
    with pytest.raises(KernelError, match=rf"CPP401.*'x' passes {dtype.value} by value"):
        check_kernel(replace(KERNEL, params=params))

"""Exceptions inside parallel regions: the text that propagates them, and kernels that throw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from cpp_wrapper.errors import KernelIndexError
from cpp_wrapper.kernels.parallel import contained
from wrapper_ir import ir

if TYPE_CHECKING:
    from packages.cpp_wrapper.tests.conftest import Bench

REGION = """\
void last() { throw 1; }
#pragma omp parallel num_threads(4)
{
    int tid = 0; // }
    #pragma omp for collapse(2)
    for(long i=0; i<n; i+=1)
    {
        for(long j=f(")"); j<n; j+=1)
        {
            work('}', i, j);
        }
    }
    #pragma omp single
    {
        last();
    }
}
"""
CONTAINED = """\
void last() { throw 1; }
{ ::wrapper_ir_launch::Caught wir_caught; _Pragma("omp parallel num_threads(4)")//#pragma omp parallel num_threads(4)
{
    int tid = 0; // }
    #pragma omp for collapse(2)
    for(long i=0; i<n; i+=1)
    {
        for(long j=f(")"); j<n; j+=1)
        { try {
            work('}', i, j);
        } catch (...) { wir_caught.keep(); } }
    }
    #pragma omp single
    { try {
        last();
    } catch (...) { wir_caught.keep(); } }
} wir_caught.rethrow(); }
"""


def test_bodies_of_worksharing_constructs_are_tried_and_lines_keep_their_numbers() -> None:
    assert contained(REGION) == CONTAINED


def test_a_region_without_worksharing_is_tried_as_a_whole() -> None:
    """Threads that wait for each other inside it would wait for the throwing thread."""
    text = contained("#pragma omp parallel\n{\n  new X;\n}\n")
    assert text.endswith(
        "\n{ try {\n  new X;\n} catch (...) { wir_caught.keep(); } } wir_caught.rethrow(); }\n"
    )
    waiting = contained("#pragma omp parallel\n{\n  new X;\n  #pragma omp barrier\n  g();\n}\n")
    assert "try" not in waiting


def test_nested_regions_close_in_order() -> None:
    text = contained("#pragma omp parallel\n{\n#pragma omp parallel\n{ TORCH_CHECK(); }}\n")
    end = "} catch (...) { wir_caught.keep(); } } wir_caught.rethrow(); }"
    assert text.endswith(f"{{ try {{ TORCH_CHECK(); {end}{end}\n")
    assert text.count("try {") == 2


def test_simd_loops_are_tried_where_they_throw() -> None:
    plain = "#pragma omp simd simdlen(8)\nfor (;i < n;) { f(i); }\n"
    assert contained(plain) == plain
    assert contained(plain.replace("f(i)", 'TORCH_CHECK(i, "i")')).count("try {") == 1


@pytest.mark.parametrize(
    "source",
    [
        "for (;;) { throw 1; }\n",
        "#pragma omp parallel for\nfor (;;) { f(); }\n",  # nothing throws
        "#pragma omp for\nfor (;;) { throw 1; }\n",  # of a region in another function
        "#pragma omp parallel for\nfor (;;) throw 1;\n",
        "#pragma omp parallel for default(none) shared(x)\nfor (;;) { throw 1; }\n",
        "#pragma omp parallel for \\\n  num_threads(2)\nfor (;;) { throw 1; }\n",
        "// #pragma omp parallel\n{ throw 1; }\n",
        "#pragma omp parallel\n{ throw 1;\n",
    ],
)
def test_other_text_stays(source: str) -> None:
    assert contained(source) == source


_CHECK = 'if (in0[i] > 9) throw std::runtime_error("index out of bounds: " + std::to_string(i));'
BODIES = {
    "for": "#pragma omp parallel for num_threads(4)\nfor (int64_t i = 0; i < n; ++i) { CHECK out0[i] = 2 * in0[i]; }",
    "region": "#pragma omp parallel num_threads(4)\n{\n#pragma omp for\nfor (int64_t i = 0; i < n; ++i) { CHECK out0[i] = 2 * in0[i]; }\n}",
    "single": "#pragma omp parallel num_threads(4)\n{\n#pragma omp single\n{ for (int64_t i = 0; i < n; ++i) { CHECK out0[i] = 2 * in0[i]; } }\n}",
    "threads": (
        "#pragma omp parallel num_threads(4)\n{\nconst int64_t t = omp_get_thread_num(), m = omp_get_num_threads();\n"
        "for (int64_t i = t; i < n; i += m) { CHECK out0[i] = 2 * in0[i]; }\n}"
    ),
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, ir.CppKernel]:
    params = (
        ir.KernelParam(name="in0", kind=ir.ParamKind.POINTER, dtype=ir.DType.I64, access=ir.Access.READ),
        ir.KernelParam(name="out0", kind=ir.ParamKind.POINTER, dtype=ir.DType.I64, access=ir.Access.WRITE),
        ir.KernelParam(name="n", kind=ir.ParamKind.SCALAR, dtype=ir.DType.I64),
    )
    includes = "#include <cstdint>\n#include <omp.h>\n#include <stdexcept>\n#include <string>\n"
    head = 'extern "C" void kernel(const int64_t* in0, int64_t* out0, int64_t n)\n{\n'
    return {
        name: ir.CppKernel(
            name=name,
            params=params,
            source=f"{includes}{head}{body.replace('CHECK', _CHECK)}\n}}\n",
            entry="kernel",
        )
        for name, body in BODIES.items()
    }


@pytest.mark.parametrize("bad", [(700,), (0, 3, 500, 999)])
def test_the_first_error_is_raised_after_the_region(
    kernels: dict[str, ir.CppKernel], shared_bench: Bench, bad: tuple[int, ...]
) -> None:
    loaded = shared_bench.runtime().load_all(tuple(kernels.values()), ir.Target())
    given, out = torch.arange(1000) % 10, torch.zeros(1000, dtype=torch.int64)
    wrong = given.clone()
    wrong[list(bad)] = 10
    for name, kernel in loaded.items():
        for _ in range(3):
            indices = "|".join(map(str, bad))
            with pytest.raises(KernelIndexError, match=rf"CPP406.*'{name}' failed: .*bounds: ({indices})$"):
                kernel(wrong, out, 1000)
            kernel(given, out, 1000)
            assert torch.equal(out, 2 * given)

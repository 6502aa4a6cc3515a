"""Calls that must be refused, or go right, without a byte read or written outside: what the sanitizer looks at beside whole programs.

Expressions without values, results and inputs that are not what they are declared as, operators that replace memory, damaged files,
undefined results, and indices out of range in parallel regions.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cpp_wrapper
from cpp_wrapper.errors import CppError
from cpp_wrapper.library.package import find_image
from inductor_frontend import capture
from tests.common.input_engines import artifact_of
from tests.common.storage_cases import HELD, SHORT, cut
from tests.cpp.cpp_case import artifact_of_text
from tests.soundness import rebinding_cases, result_cases
from tests.soundness.expression_cases import ENVIRONMENTS, EXPECTED, EXPRESSIONS, Env
from tests.soundness.expression_engines import KINDS, NAMED, program_of, values
from tests.soundness.rebinding_cases import OPERATORS, PROGRAMS, eight, text_of
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import code_of

# Any in this file: arguments of any program
Call = tuple[Callable[[], list[Any]], str]
"""Arguments, and the code of the error: '' for none, `*` for one or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program, and calls of it."""

    name: str
    artifact: Callable[[], Artifact]
    calls: tuple[Call, ...] = field(repr=False)


def register() -> list[Any]:
    """Registers the operators of the programs, which end with what is returned."""
    return [result_cases.register(), rebinding_cases.register()]


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _expressions()
    yield from _results()
    yield from _inputs()
    yield from _rebinding()
    yield from _kernels()


def _expressions() -> Iterator[Case]:
    for kind, texts in NAMED.items():
        calls = tuple(
            (partial(_arguments, texts.index(text), env), want if isinstance(want, str) else "")
            for text, env, want in EXPECTED
            if ir.parse_expr(text, KINDS).kind == kind
        )
        yield Case(name=f"named_{kind}", artifact=partial(program_of, texts, kind), calls=calls)
    for kind, many in EXPRESSIONS.items():
        every = tuple((partial(_arguments, at, env), "*") for at in range(len(many)) for env in ENVIRONMENTS)
        yield Case(name=f"all_{kind}", artifact=partial(program_of, many, kind), calls=every)


def _arguments(at: int, env: Env) -> list[Any]:
    return [at, *values(env)]


def _parsed(text: Callable[..., str], *args: Any) -> Callable[[], Artifact]:
    return lambda: artifact_of(text(*args))


def _results() -> Iterator[Case]:
    for name in result_cases.RESULTS:
        code = "WIR921" if name == "sizes" else "WIR927"
        calls = ((lambda: [torch.ones(8)], code),) * 2
        yield Case(name=f"result_{name}", artifact=_parsed(result_cases.result_text, name), calls=calls)
    for weights in (False, True):
        artifact = partial(_attention, weights)
        yield Case(name=f"undefined_{weights}", artifact=artifact, calls=((lambda: [_query()], ""),) * 2)


def _query() -> Tensor:
    return torch.linspace(0, 1, 2 * 4 * result_cases.SIZE).reshape(2, 4, result_cases.SIZE)


def _attention(weights: bool) -> Artifact:
    return capture(lambda x: result_cases.attention(x, weights), (_query(),))


def _inputs() -> Iterator[Case]:
    tensors: list[tuple[Callable[[], Tensor], str]] = [
        (partial(cut, 32), ""),
        (partial(cut, 44, 3), ""),
        (partial(cut, 0), "WIR926"),
        (partial(cut, 31), "WIR926"),
        (partial(cut, 43, 3), "WIR926"),
        *((make, "*") for make in (*HELD.values(), *SHORT.values())),
    ]
    calls = tuple((partial(_with_another, make), code) for make, code in tensors)
    for is_dynamic in (False, True):
        name = f"input_{'dynamic' if is_dynamic else 'fixed'}"
        yield Case(name=name, artifact=_parsed(result_cases.input_text, is_dynamic), calls=calls)


def _with_another(make: Callable[[], Tensor]) -> list[Any]:
    return [make(), torch.ones(8)]


def _rebinding() -> Iterator[Case]:
    def case(name: str, artifact: Callable[[], Artifact], code: str) -> Case:
        return Case(name=f"rebinding_{name}", artifact=artifact, calls=((lambda: [eight()], code),) * 3)

    for program, text in PROGRAMS.items():
        for operator in OPERATORS:
            set_code = (
                "WIR921" if program == "input" else "WIR927"
            )  # the new storage is smaller than the allocated one
            code = {"double": "", "cut": "WIR927", "set": set_code}.get(operator, "WIR921")
            yield case(f"{program}_{operator}", _parsed(text_of, text, operator), code)
    yield case("list", _parsed(text_of, rebinding_cases.LIST, "double"), "WIR927")
    yield case("callee", _parsed(text_of, rebinding_cases.CALLEE, "cut"), "WIR927")
    yield case("constant", partial(rebinding_cases.constant_artifact, "cut"), "WIR927")


_PARALLEL = """
kernel cpp @take entry "kernel" (read f32* table, read i64* at, write f32* out, i64 n) {{{
#include <cstdint>
#include <omp.h>
#include <stdexcept>
extern "C" void kernel(const float* table, const int64_t* at, float* out, const int64_t n)
{
#pragma omp parallel num_threads(4)
{
#pragma omp for
for (int64_t i = 0; i < n; ++i) { if (at[i] < 0 || at[i] >= 8) throw std::out_of_range("index"); out[i] = table[at[i]]; }
}
}
}}}

func @main(%t: f32[8], %i: i64[1000]) {
  %y = alloc f32[1000]
  launch @take(%t, %i, %y, 1000)
  return %y
}
"""


def _kernels() -> Iterator[Case]:
    outcomes = ((), ""), ((700,), "CPP406"), ((0, 3, 500, 999), "CPP406"), ((), "")
    parallel = tuple((partial(_indices, wrong), code) for wrong, code in outcomes)
    yield Case(name="parallel_kernel", artifact=partial(artifact_of_text, _PARALLEL), calls=parallel)
    for width in (4, 512):
        tokens = (
            ([1, 2], ""),
            ([1, 10], "CPP406"),
            ([-11, 0], "CPP406"),
            ([1 << 40, 3], "CPP406"),
            ([9, 0], ""),
        )
        calls = tuple((partial(_tokens, width, given), code) for given, code in tokens)
        yield Case(name=f"embedding_{width}", artifact=partial(_embedding, width), calls=calls)


def _indices(wrong: tuple[int, ...]) -> list[Any]:
    at = torch.arange(1000) % 8
    at[list(wrong)] = 1 << 40
    return [torch.rand(8), at]


def _tokens(width: int, tokens: list[int]) -> list[Any]:
    return [torch.tensor(tokens), torch.rand(10, width)]


def _embedding(width: int) -> Artifact:
    return capture(lambda i, w: torch.nn.functional.embedding(i, w) * 2, tuple(_tokens(width, [0, 1])))


def call_all(case: Case, library: Path) -> list[str]:
    """Returns the calls whose outcome is not the expected one."""
    program = cpp_wrapper.load(library)
    wrong = []
    for number, (make, wanted) in enumerate(case.calls):
        found = ""
        try:
            program.boxed(make())
        except Exception as error:
            found = _code(error)
        if wanted not in ("*", found):
            wrong.append(f"{case.name}, call {number}: {found or 'no error'}, not {wanted or 'none'}")
    return wrong


def _code(error: Exception) -> str:
    code = error.code if isinstance(error, CppError) else code_of(error)
    return code or type(error).__name__


_ADD = """
const %c : f32[{n}]

extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

func @main(%x: f32[{n}]) {{
  %y = call aten::add.Tensor(%x, %c) : f32[{n}]
  return %y
}}
"""
_SIZES = {"small": 1 << 12, "large": (5 << 18) + 100}
"""Elements of a constant that is copied, and of one that is mapped."""


def build_files(folder: Path, build: Callable[[Artifact, Path], object]) -> None:
    """Libraries with constants, for `damage_all`."""
    for name, count in _SIZES.items():
        artifact = artifact_of_text(_ADD.format(n=count), {"c": torch.full((count,), 3.0)})
        for suffix in (".so", ".pt2"):
            build(artifact, folder / f"{name}{suffix}")


def damage_all(folder: Path) -> list[str]:
    """Opens the libraries in a folder in every state of damage, and changes them while they are in use."""
    wrong = []
    for path in sorted(folder.iterdir()):
        count = _SIZES[path.stem]
        image, size = find_image(path), path.stat().st_size
        places = range(image.begin, image.begin + image.nbytes, max(image.nbytes // 40, 1))
        ends = (image.begin + image.nbytes - back for back in (1, 10, 20, 31, 33, 45, 80, 200))
        for at in (*places, *ends):
            wrong += _refused(path, f"byte {at} changed", partial(_flip, at=at))
        for left in (0, 1, 31, 1000, image.begin + image.code_nbytes, size // 2, size - 1):
            wrong += _refused(path, f"cut to {left}", partial(os.truncate, length=left))
        wrong += _changed_in_use(path, count, path.stem == "large")
    return wrong


def _flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def _copy(path: Path) -> Path:
    copy = path.with_name(f"copy{path.suffix}")
    return Path(shutil.copy(path, copy))


def _refused(path: Path, what: str, damage: Callable[[Path], None]) -> list[str]:
    copy = _copy(path)
    damage(copy)
    found = ""
    try:
        cpp_wrapper.load(copy)
    except Exception as error:
        found = _code(error)
    copy.unlink()
    return [] if found == "CPP304" else [f"{path.name}, {what}: {found or 'loaded'}"]


def _changed_in_use(path: Path, count: int, is_mapped: bool) -> list[str]:
    wrong = []
    for left in (None, 100):
        copy = _copy(path)
        program = cpp_wrapper.load(copy)
        x = torch.ones(count)
        program(x)
        if left is None:
            _flip(copy, find_image(copy).begin + find_image(copy).code_nbytes + 5)
        else:
            os.truncate(copy, left)
        found = ""
        try:
            (result,) = program(x)
            found = "" if _is_right(result) else "wrong values"
        except Exception as error:
            found = _code(error)
        if found != ("WIR713" if is_mapped else ""):
            wrong.append(f"{path.name} in use, {left}: {found or 'no error'}")
        del program
        copy.unlink()
    return wrong


def _is_right(result: Tensor) -> bool:
    return bool((result == 4.0).all())

"""Requirements of kernel sources, and operators that need Python."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch

import wrapper_ir
from inductor_frontend import capture
from inductor_frontend.requirements import required_headers, required_modules
from wrapper_ir import ir
from wrapper_ir_torch.python_operators import is_python_only

PREFIX = "torch/csrc/inductor/cpp_prefix.h"
HELPERS = "torch._inductor.runtime.triton_helpers"
TORCH = f"torch {torch.__version__.partition('+')[0]}"
ROOT = Path(torch.__file__).parent


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_kernels_in_cpp_say_their_headers() -> None:
    artifact = capture(lambda x: x.exp() + 1, (torch.randn(8, 8),))
    [kernel] = artifact.program.kernels
    assert isinstance(kernel, ir.CppKernel)
    [header] = kernel.requires
    assert (header.name, header.origin, header.sha256) == (PREFIX, TORCH, digest(ROOT / "include" / PREFIX))
    text = wrapper_ir.print_program(artifact.program)
    assert f'"{PREFIX}" of "{TORCH}" sha256 "{header.sha256}",' in text
    assert wrapper_ir.parse_program(text) == artifact.program


def test_triton_kernels_say_their_modules() -> None:
    pytest.importorskip("triton")
    artifact = capture(lambda x: x.softmax(-1).relu(), (torch.randn(64, 300),), target="cuda:sm_90")
    [kernel] = artifact.program.kernels
    assert isinstance(kernel, ir.TritonKernel)
    modules = {r.name: (r.origin, r.sha256) for r in kernel.requires}
    assert modules[HELPERS] == (TORCH, digest(ROOT / "_inductor" / "runtime" / "triton_helpers.py"))
    assert not any(name.startswith("triton") for name in modules)


def test_sources_are_read() -> None:
    modules = required_modules(
        "import math, triton.language as tl\nfrom torch._inductor.runtime import triton_helpers\n"
        "from torch._inductor.runtime.triton_helpers import libdevice\nimport no_such_package.part\n"
    )
    assert [m.name for m in modules] == [HELPERS, "no_such_package.part"]
    assert (modules[1].origin, modules[1].sha256) == ("", "")
    headers = required_headers(f'#include <vector>\n  # include "{PREFIX}"\n#include <{PREFIX}>\n')
    assert [h.name for h in headers] == [PREFIX]


@pytest.fixture
def library() -> object:
    # Any: torch has no types for it
    fragment: Any = torch.library.Library("python_only_test", "FRAGMENT")  # type: ignore[no-untyped-call]
    fragment.define("plain(Tensor x) -> Tensor")
    fragment.impl("plain", lambda x: x.clone(), "CPU")
    fragment.define("of.any(Tensor x) -> Tensor")
    fragment.impl("of.any", lambda x: x.clone(), "CompositeExplicitAutograd")
    fragment.define("nothing(Tensor x) -> Tensor")
    fragment.define("in_parts(Tensor x) -> Tensor")
    return fragment


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("python_only_test::plain", True),
        ("python_only_test::of.any", True),
        ("python_only_test::nothing", True),
        ("prims::convert_element_type", True),
        ("aten::relu", False),
        ("aten::add.out", False),
        ("aten::reshape", False),
        ("_c10d_functional::all_reduce", False),
        ("inductor::_mm_plus_mm", False),
    ],
)
def test_operators_that_exist_in_python_only(library: object, name: str, wanted: bool) -> None:
    assert is_python_only(name) == wanted


def test_captured_programs_tag_them() -> None:
    @torch.library.custom_op("python_only_test::own", mutates_args=())
    def own(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @own.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = own(x @ x)
        return result + 1

    program = capture(model, (torch.randn(4, 4),)).program
    tagged = {extern.name for extern in program.externs if ir.ExternTag.PYTHON_ONLY in extern.tags}
    assert tagged == {"python_only_test::own"}
    assert len(program.externs) > 1
    assert "tags(python_only)" in wrapper_ir.print_program(program)

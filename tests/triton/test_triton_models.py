"""Models with Triton kernels over CPU tensors: captured, verified, stored as text, emitted, equal to eager.

Triton's interpreter runs the kernels, so no GPU is needed.
"""

from __future__ import annotations

import pytest
import torch

import fx_converter
import inductor_frontend
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from inductor_frontend import CaptureOptions
from tests.common.compare import assert_same, clone_tree
from tests.common.zoo import ZOO, Case
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")

OPTIONS = CaptureOptions(cpu_kernels="triton")
QUICK = [("gpt2", False), ("bert", False), ("vit", False), ("lstm", True)]
MODELS = ["gpt2", "bert", "vit", "lstm", "t5", "llama", "moe", "resnet"]
CASES = [(name, dynamic) for name in MODELS for dynamic in (False, True)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dynamic"),
    [
        pytest.param(
            *case,
            id=f"{case[0]}-{'dynamic' if case[1] else 'static'}",
            marks=() if case in QUICK else pytest.mark.conformance,
        )
        for case in CASES
    ],
)
def test_equals_eager(name: str, dynamic: bool) -> None:
    case = ZOO[name]()
    artifact = captured(case, dynamic)
    program = artifact.program
    assert program.kernels
    assert all(isinstance(kernel, ir.TritonKernel) for kernel in program.kernels)
    wrapper_ir.verify(program)
    assert wrapper_ir.parse_program(wrapper_ir.print_program(program)) == program
    compare(case, dynamic, py_wrapper.compile(artifact))


@pytest.mark.parametrize("form", ["direct", "hop"])
@pytest.mark.parametrize(
    ("name", "dynamic"),
    [
        pytest.param(
            *case,
            id=f"{case[0]}-{'dynamic' if case[1] else 'static'}",
            marks=() if case == ("lstm", True) else pytest.mark.conformance,
        )
        for case in CASES
    ],
)
def test_graphs_equal_eager(name: str, dynamic: bool, form: KernelCalls) -> None:
    case = ZOO[name]()
    compare(case, dynamic, fx_converter.compile(captured(case, dynamic), FxOptions(kernel_calls=form)))


def captured(case: Case, dynamic: bool) -> Artifact:
    shapes = case.dynamic if dynamic else None
    return inductor_frontend.capture(
        case.model, case.args, case.kwargs, dynamic_shapes=shapes, options=OPTIONS
    )


def compare(case: Case, dynamic: bool, run: CompiledProgram) -> None:
    """Compares with eager mode, at the sizes of the capture and, if they are dynamic, at others."""
    calls = [(case.args, case.kwargs or {})]
    if dynamic:
        assert case.other is not None
        calls.append(case.other)
    for args, kwargs in calls:
        with torch.no_grad():
            want = case.model(*clone_tree(args), **clone_tree(dict(kwargs)))
        assert_same(run(*clone_tree(args), **clone_tree(dict(kwargs))), want)

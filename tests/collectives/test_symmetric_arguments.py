"""Arguments of operators that must be symmetric memory: the core's table for torch, declarations of a
capture, and refusals of engines.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.library import Library

import fx_converter
import py_wrapper
from inductor_frontend import capture
from inductor_frontend.operators.schemas import extern_def
from tests.collectives import symmetric_worker
from wrapper_ir import check, parse_program, print_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import NotSupportedError, VerificationError
from wrapper_ir.operators.symmetric import GIVE_UP_STORAGE, SYMMETRIC_ARGUMENTS
from wrapper_ir_runtime.interp import Interpreter

REGISTERS = hasattr(Library, "register_symm_mem_args")  # not in all versions of torch
ANY_MEMORY = {
    "_async_input_mm",
    "_barrier",
    "_low_contention_all_gather",
    "_low_contention_all_gather_ce_multicast",
    "_low_contention_reduce_scatter",
    "fused_all_gather_matmul",
    "fused_all_gather_scaled_matmul",
    "fused_matmul_reduce_scatter",
    "fused_scaled_matmul_reduce_scatter",
    "memset32_",
    "nccl_get_out",
    "nccl_put_signal",
    "nccl_wait_signal",
    "nvshmem_get_out",
    "stream_write_value32_",
}
"""Operators of torch's that take any memory, or a handle of symmetric memory."""


def installed() -> dict[str, list[str]]:
    """The tensor arguments of each operator, over all its overloads."""
    found: dict[str, list[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        tensors = [a.name for a in schema.arguments if "Tensor" in str(a.type)]
        found.setdefault(schema.name, []).extend(tensors)
    return found


@pytest.mark.parametrize("table", [SYMMETRIC_ARGUMENTS, GIVE_UP_STORAGE])
def test_the_tables_name_arguments_of_torch(table: dict[str, tuple[str, ...]]) -> None:
    known = installed()
    for name, arguments in table.items():
        if name in known:  # not all are in every version
            assert set(arguments) <= set(known[name]), name
    assert len(table.keys() & known.keys()) > 5


def test_each_operator_of_torch_is_known() -> None:
    ours = {name for name in installed() if name.startswith("symm_mem::")}
    assert ours - SYMMETRIC_ARGUMENTS.keys() <= {f"symm_mem::{name}" for name in ANY_MEMORY}


def test_a_declaration_says_what_torch_needs() -> None:
    ops = torch.ops.symm_mem
    declared = [extern_def(packet.default).symmetric for packet in (ops.one_shot_all_reduce, ops.tile_reduce)]
    declared += [
        extern_def(packet.default).symmetric for packet in (ops.multimem_all_gather_out, ops.memset32_)
    ]
    assert declared == [("input",), ("in_tile", "out_tile"), ("out",), ()]


def sums(input: Tensor, *, scale: float = 1.0) -> Tensor:
    return input.sum(0) * scale


def test_the_program_for_two_gpus_is_valid() -> None:
    assert not check(parse_program(symmetric_worker.PROGRAM.replace("RANK", "0")))


@pytest.fixture
def library() -> Iterator[Library]:
    """`tests_symmetric::total`, whose input its library registers as symmetric memory."""
    if not REGISTERS:
        pytest.skip("this torch has no register_symm_mem_args")
    made = Library("tests_symmetric", "DEF")  # type: ignore[no-untyped-call]  # torch's, as below
    made.define("total(Tensor input, *, float scale=1.0) -> Tensor")  # type: ignore[no-untyped-call]
    made.impl("total", sums, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    made.register_symm_mem_args("total", ["input"])  # type: ignore[no-untyped-call]
    yield made
    made._destroy()  # type: ignore[no-untyped-call]


def total(x: Tensor) -> Tensor:
    result: Tensor = torch.ops.tests_symmetric.total(x)
    return result


def test_a_capture_declares_what_a_library_registered(library: Library) -> None:
    x = torch.randn(3, 4)
    artifact = capture(total, (x,))
    (extern,) = artifact.program.externs
    assert extern.symmetric == ("input",)
    assert f'extern "{extern.schema}" tags(python_only) symmetric(input)' in print_program(artifact.program)
    for run in (py_wrapper.compile(artifact), fx_converter.convert(artifact)):
        assert torch.equal(run(x), x.sum(0))  # an input may live anywhere


def test_a_capture_refuses_ordinary_memory(library: Library) -> None:
    with pytest.raises(VerificationError, match="WIR205"):
        capture(lambda x: total(x + 1), (torch.randn(3, 4),))


def test_engines_refuse_what_is_declared_as_any_memory(library: Library) -> None:
    text = """wir 0.5
target cpu

extern "tests_symmetric::total(Tensor input, *, float scale=1.0) -> Tensor"

func @main(%x: f32[3, 4]) {
  %y = call tests_symmetric::total(%x) : f32[4]
  return %y
}
"""
    x = torch.randn(3, 4)
    program = parse_program(text)
    assert not check(program)
    for make in (
        py_wrapper.compile,
        fx_converter.convert,
        lambda a: Interpreter(a, py_wrapper.TORCH_MACHINE),
    ):
        with pytest.raises(NotSupportedError, match="its argument input must be symmetric memory"):
            make(bare_artifact(program))(x)
    right = bare_artifact(parse_program(text.replace('-> Tensor"', '-> Tensor" symmetric(input)')))
    assert torch.equal(py_wrapper.compile(right)(x)[0], x.sum(0))

"""Tensors that operators of other libraries write are compared with their types after the call, by every
engine and form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cpp_wrapper
import fx_converter
import py_wrapper
from cpp_wrapper import CppOptions
from fx_converter import FxOptions
from inductor_frontend import capture
from py_wrapper import PyOptions
from tests.common.input_engines import Run, artifact_of, engines
from tests.soundness.rebinding_cases import (
    CALLEE,
    CONSTANT,
    INPUT,
    LIST,
    NAMESPACE,
    OPERATORS,
    POOL,
    PROGRAMS,
    constant_artifact,
    eight,
    register,
    text_of,
)
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir_lowering import lower, print_plan


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    made = register()
    yield
    made._destroy()


def _runs(text: str, folder: Path, artifact: Artifact | None = None) -> Iterator[tuple[str, Run]]:
    artifact = artifact or artifact_of(text)
    yield from engines(artifact, folder).items()
    yield "python, persistent", py_wrapper.compile(artifact, PyOptions(persistent_buffers=True)).boxed
    yield "fx, persistent", fx_converter.compile(artifact, FxOptions(persistent_buffers=True)).boxed
    for persistent in (False, True):
        options = CppOptions(opt_level=0, persistent_buffers=persistent)
        library = cpp_wrapper.build(artifact, folder / f"library_{persistent}.so", options)
        yield f"cpp, persistent {persistent}", cpp_wrapper.load(library).boxed


@pytest.mark.slow
@pytest.mark.parametrize("operator", sorted(OPERATORS.keys() - {"double"}))
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_tensor_that_an_operator_resized_is_not_used(program: str, operator: str, tmp_path: Path) -> None:
    for engine, run in _runs(text_of(PROGRAMS[program], operator), tmp_path):
        for _ in range(2):
            with pytest.raises(ExecutionError, match=r"WIR92[17]"):
                pytest.fail(f"{engine} takes it: {run([eight()])}")


@pytest.mark.slow
def test_one_of_a_list_and_one_in_a_callee(tmp_path: Path) -> None:
    for number, text in enumerate((text_of(LIST, "double"), text_of(CALLEE, "cut"))):
        for engine, run in _runs(text, tmp_path / str(number)):
            with pytest.raises(ExecutionError, match="an operator that wrote its storage left"):
                pytest.fail(f"{engine} takes it: {run([eight()])}")


@pytest.mark.slow
def test_a_constant_that_an_operator_resized_is_not_used_by_the_next_call(tmp_path: Path) -> None:
    for engine, run in _runs("", tmp_path, constant_artifact("cut")):
        for _ in range(2):
            with pytest.raises(ExecutionError, match="WIR927"):
                pytest.fail(f"{engine} takes it: {run([eight()])}")


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_operator_that_writes_elements_is_taken(program: str, tmp_path: Path) -> None:
    for engine, run in _runs(text_of(PROGRAMS[program], "double"), tmp_path):
        for _ in range(2):
            (result,) = run([eight()])
            wanted = -eight() * 2
            torch.testing.assert_close(result, wanted, msg=engine)


def _checks(text: str) -> list[str]:
    plan = print_plan(lower(artifact_of(text)))
    return [line.strip() for line in plan.splitlines() if "written" in line]


def test_the_storage_that_a_program_allocates_is_checked_as_a_whole() -> None:
    assert _checks(text_of(INPUT, "cut")) == ["check_result %x dtype device memory written"]
    assert _checks(text_of(POOL, "cut")) == ["check_result %a dtype device memory written storage(96)"]
    assert [line.split()[1] for line in _checks(text_of(CALLEE, "cut"))] == ["%v", "%x", "%a"]
    assert [line.split()[1] for line in _checks(text_of(CONSTANT, "cut"))] == ["%w", "%w"]


def test_known_operators_cost_nothing() -> None:
    text = 'extern "aten::mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)"\n' + INPUT.replace(
        "NAME(%x)", "aten::mul_.Scalar(%x, 2)"
    )
    assert not _checks('extern "aten::neg(Tensor self) -> Tensor"\n' + text)


def test_a_captured_model(tmp_path: Path) -> None:
    operator: Any = getattr(torch.ops, NAMESPACE).cut.default

    def model(x: Tensor) -> Tensor:
        made = x + 1
        operator(made)
        return made * 2

    artifact = capture(model, (eight(),))
    for run in (py_wrapper.compile(artifact), fx_converter.convert(artifact)):
        with pytest.raises(ExecutionError, match="WIR927"):
            run(eight())

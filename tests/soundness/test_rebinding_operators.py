"""Tensors that operators of other libraries write are held against their types after the call, by every engine and form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from py_wrapper import TORCH_MACHINE, PyOptions
from tests.common.input_engines import Run, artifact_of, engines
from wrapper_ir import parse_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir_lowering import lower, print_plan

NAMESPACE = "rebinding_operators"


def _set(x: Tensor) -> None:
    x.set_(torch.zeros(3))  # type: ignore[call-overload]  # torch's stubs want a storage


def _cut(x: Tensor) -> None:
    x.untyped_storage().resize_(16)


def _grow(x: Tensor) -> None:
    x.resize_(16)


def _turn(x: Tensor) -> None:
    x.as_strided_((4, 2), (1, 4))


def _double(x: Tensor) -> None:
    x.mul_(2)


OPERATORS: dict[str, Callable[[Tensor], None]] = {
    "set": _set, "cut": _cut, "grow": _grow, "turn": _turn, "double": _double,
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    made: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's own
    for name, function in OPERATORS.items():
        made.define(f"{name}(Tensor(a!) x) -> ()")
        made.impl(name, function, "CPU")
    made.define("both(Tensor(a!)[] xs, int n) -> ()")
    for name in OPERATORS:
        made.impl(name, lambda x: None, "Meta")
    made.impl("both", lambda xs, n: _cut(xs[1]), "CPU")
    yield
    made._destroy()


HEAD = f"""extern "{NAMESPACE}::NAME(Tensor(a!) x) -> ()"
extern "{NAMESPACE}::both(Tensor(a!)[] xs, int n) -> ()"
extern "aten::neg(Tensor self) -> Tensor"
"""
INPUT = """
func @main(%x: f32[4, 2]) {
  call NAME(%x)
  %y = call aten::neg(%x) : f32[4, 2]
  drop %x
  return %y
}
"""
ALLOCATED = """
func @main(%x: f32[4, 2]) {
  %s = alloc_storage 32
  %a = view %s : f32[4, 2]
  copy %a, %x
  call NAME(%a)
  %y = call aten::neg(%a) : f32[4, 2]
  free %s
  drop %x
  return %y
}
"""
POOL = """
func @main(%x: f32[4, 2]) {
  %pool = alloc_storage 96 pool
  %s = slot %pool : 32
  %a = view %s : f32[4, 2]
  copy %a, %x
  call NAME(%a)
  %t = slot %pool + 64 : 32
  %b = view %t : f32[4, 2]
  copy %b, %a
  free %s
  %y = call aten::neg(%b) : f32[4, 2]
  free %t
  free %pool
  drop %x
  return %y
}
"""
CALLEE = """
func @main(%x: f32[4, 2]) {
  %v = view %x : f32[2]
  call_subgraph @touch(%v)
  drop %v
  %y = call aten::neg(%x) : f32[4, 2]
  drop %x
  return %y
}

func @touch(%a: f32[2]) {
  call NAME(%a)
  return
}
"""
CONSTANT = """
mutable const %w : f32[4, 2]

func @main(%x: f32[4, 2]) {
  copy %w, %x
  call NAME(%w)
  %y = call aten::neg(%w) : f32[4, 2]
  drop %x
  return %y
}
"""
LIST = """
func @main(%x: f32[4, 2]) {
  %s = alloc_storage 32
  %a = view %s : f32[4, 2]
  copy %a, %x
  call both([%x, %a], 1)
  %y = call aten::neg(%a) : f32[4, 2]
  free %s
  drop %x
  return %y
}
"""
PROGRAMS = {"input": INPUT, "allocated": ALLOCATED, "pool": POOL}


def _text(program: str, operator: str) -> str:
    text = program.replace("call both", f"call {NAMESPACE}::both").replace(
        "call NAME", f"call {NAMESPACE}::NAME"
    )
    return HEAD.replace("NAME(", f"{operator}(") + text.replace("::NAME", f"::{operator}")


def _x() -> Tensor:
    return torch.arange(8.0).reshape(4, 2)


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
    for engine, run in _runs(_text(PROGRAMS[program], operator), tmp_path):
        for _ in range(2):
            with pytest.raises(ExecutionError, match=r"WIR92[17]"):
                pytest.fail(f"{engine} takes it: {run([_x()])}")


@pytest.mark.slow
def test_one_of_a_list_and_one_in_a_callee(tmp_path: Path) -> None:
    for number, text in enumerate((_text(LIST, "double"), _text(CALLEE, "cut"))):
        for engine, run in _runs(text, tmp_path / str(number)):
            with pytest.raises(ExecutionError, match="an operator that wrote its storage left"):
                pytest.fail(f"{engine} takes it: {run([_x()])}")


@pytest.mark.slow
def test_a_constant_that_an_operator_resized_is_not_used_by_the_next_call(tmp_path: Path) -> None:
    program = parse_program(f"wir 0.3\ntarget cpu\n\n{_text(CONSTANT, 'cut')}")
    verify(program)
    data = {"w": TORCH_MACHINE.data(torch.zeros(4, 2))}
    for engine, run in _runs("", tmp_path, bare_artifact(program, data)):
        for _ in range(2):
            with pytest.raises(ExecutionError, match="WIR927"):
                pytest.fail(f"{engine} takes it: {run([_x()])}")


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_operator_that_writes_elements_is_taken(program: str, tmp_path: Path) -> None:
    for engine, run in _runs(_text(PROGRAMS[program], "double"), tmp_path):
        for _ in range(2):
            (result,) = run([_x()])
            wanted = -_x() * 2
            torch.testing.assert_close(result, wanted, msg=engine)


def _checks(text: str) -> list[str]:
    plan = print_plan(lower(artifact_of(text)))
    return [line.strip() for line in plan.splitlines() if "written" in line]


def test_the_storage_that_a_program_allocates_is_checked_as_a_whole() -> None:
    assert _checks(_text(INPUT, "cut")) == ["check_result %x dtype device memory written"]
    assert _checks(_text(POOL, "cut")) == ["check_result %a dtype device memory written storage(96)"]
    assert [line.split()[1] for line in _checks(_text(CALLEE, "cut"))] == ["%v", "%x", "%a"]
    assert [line.split()[1] for line in _checks(_text(CONSTANT, "cut"))] == ["%w", "%w"]


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

    artifact = capture(model, (_x(),))
    for run in (py_wrapper.compile(artifact), fx_converter.convert(artifact)):
        with pytest.raises(ExecutionError, match="WIR927"):
            run(_x())

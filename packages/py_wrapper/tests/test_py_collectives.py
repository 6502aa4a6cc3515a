"""Collectives on one process: every form of the op, through interpreter and emitted Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import py_wrapper
from py_wrapper import TORCH_MACHINE
from wrapper_ir import ir, parse_program, verify
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir_runtime.interp import run

HEAD = """wir 0.5
target cpu
extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]" tags(collective)
extern "_c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)" tags(collective)
"""
ONE = """
  %h = collective _c10d_functional::all_reduce(%x, "sum", "{group}") group("{group}") : f32[4]
  %y = wait %h : f32[4]
  return %y
"""
BODIES = {
    "out of place": ONE.replace("{group}", "0"),
    "in place": """
  %h = collective _c10d_functional::all_reduce_(%x, "sum", "0") group("0") : f32[4]
  %y = wait %h : f32[4]
  return %y
""",
    "a list of two": """
  %v = view %x + 8 : f32[2]
  %a, %b = collective _c10d_functional::all_gather_into_tensor_coalesced([%v, %x], 1, "0") group("0") : f32[2], f32[4]
  %c = wait %b : f32[4]
  %d = wait %a : f32[2]
  drop %v
  free %a
  return %c
""",
    "a list of one": """
  %a = collective _c10d_functional::all_gather_into_tensor_coalesced([%x], 1, "0") group("0") : f32[4]
  %c = wait %a : f32[4]
  return %c
""",
    "values with the names of what is looked up": """
  %wait_tensor = view %x + 0 : f32[4]
  %h = collective _c10d_functional::all_reduce(%wait_tensor, "sum", "0") group("0") : f32[4]
  drop %wait_tensor
  %finished_all_reduce = wait %h : f32[4]
  %finished_all_reduce_1 = view %finished_all_reduce + 0 : f32[4]
  %g = collective _c10d_functional::all_reduce(%finished_all_reduce_1, "sum", "0") group("0") : f32[4]
  %wait_tensor_1 = wait %g : f32[4]
  drop %finished_all_reduce_1
  drop %finished_all_reduce
  free %h
  return %wait_tensor_1
""",
    "an out argument": """
  %y = alloc f32[4]
  %h = collective _c10d_functional::all_gather_into_tensor_out(%x, 1, "0", out=%y) group("0") : f32[4]
  %z = wait %h : f32[4]
  return %y
""",
}


def _program(body: str) -> ir.Program:
    program = parse_program(f"{HEAD}func @main(%x: f32[4]) {{\n{body.strip()}\n}}\n")
    verify(program)
    return program


@pytest.fixture(scope="module")
def process_group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed package")
    store = Path(tmp_path_factory.mktemp("group")) / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("case", BODIES, ids=lambda c: c.replace(" ", "-"))
def test_alone_in_a_group_nothing_changes(case: str) -> None:
    program = _program(BODIES[case])
    x = torch.randn(4)
    (a,) = run(program, [x.clone()], TORCH_MACHINE)
    (b,) = py_wrapper.compile(bare_artifact(program)).boxed([x.clone()])
    assert torch.equal(a, x)
    assert torch.equal(b, x)


@pytest.mark.usefixtures("process_group")
def test_a_group_that_does_not_exist_is_named_before_anything_runs() -> None:
    program = _program(ONE.replace("{group}", "tp"))
    for execute in (
        lambda args: run(program, args, TORCH_MACHINE),
        py_wrapper.compile(bare_artifact(program)).boxed,
    ):
        with pytest.raises(NotSupportedError, match="process group 'tp'") as caught:
            execute([torch.randn(4)])
        assert caught.value.code == "WIR915"
        assert "create the group" in caught.value.hint


def test_emitted_text() -> None:
    source = str(py_wrapper.emit(bare_artifact(_program(BODIES["a list of two"]))))
    assert 'check_groups = program_groups(("0",), "cpu")' in source
    assert 'a, b = finished_all_gather_into_tensor_coalesced([v, x], 1, "0")' in source
    assert "c = b\n" in source
    assert "(a,) = finished_all" in str(py_wrapper.emit(bare_artifact(_program(BODIES["a list of one"]))))

"""Run-time errors of emitted programs: coded, with the line and the source op."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import artifact_of, find_runtime
from packages.py_wrapper.tests.py_programs import CASES

import py_wrapper
from py_wrapper import TORCH_MACHINE, PyOptions
from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime.interp import InterpOptions, run

MLP = next(c for c in CASES if c.name == "mlp")
PROGRAMS = {
    "assertion": ("WIR920", 'define s0 = size(%x, 0)\n  assert s0 <= 3 "too many"', "too many: s0 <= 3"),
    "layout": ("WIR921", 'assert_layout %x [5] [1] "input"', "input"),
    "alignment": ("WIR921", "assert_layout %x [4] [1] align(4096)", "4096"),
    "finite": ("WIR922", 'assert_finite %x "argument 0"', "argument 0"),
    "operator": ("WIR927", "%y = call aten::mm(%x, %x) : f32[4]", "must be a matrix"),
}
HEAD = """wir 0.5
target cpu
symbol s0 : int backed hint 4
extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::relu(Tensor self) -> Tensor"
"""


def failure(engine: str, line: str) -> RuntimeError:
    program = parse_program(
        f"{HEAD}func @main(%x: f32[4]) {{\n  {line}  #1\n  return\n}}\n"
        'provenance\n  #1 nodes("relu") ops("aten.relu.default") at("m.py:3")\n'
    )
    x = torch.tensor([1.0, 2.0, 3.0, float("nan"), 5.0])[:4]
    x = torch.cat([x, x]).reshape(2, 4)[1] if "align" in line else x
    args: list[Any] = [x]
    boxed = py_wrapper.compile(bare_artifact(program)).boxed
    call = boxed if engine == "python" else lambda flat: run(program, flat, TORCH_MACHINE)
    with pytest.raises(RuntimeError) as caught:
        call(args)
    return caught.value


@pytest.mark.parametrize("engine", ["python", "interpreter"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_coded_and_placed(name: str, engine: str) -> None:
    code, line, part = PROGRAMS[name]
    error = failure(engine, line)
    message = "\n".join([str(error), *getattr(error, "__notes__", ())])
    assert f"[{code}]" in message
    assert isinstance(error, ExecutionError) == (name != "operator"), "torch's own errors stay what they are"
    assert part in message
    assert "relu" in message, "the source op is named"
    assert "opcheck" not in message
    assert ("program.py:" in message) if engine == "python" else ("^^^" in message)


@pytest.mark.parametrize("engine", ["python", "interpreter"])
def test_results_are_held_against_their_declaration(engine: str) -> None:
    error = failure(engine, "%y = call aten::relu(%x) : f32[8]\n  drop %y")
    assert isinstance(error, ExecutionError)
    assert error.code in ("WIR921", "WIR927")


def test_a_failing_call_leaves_grad_mode_as_it_was() -> None:
    f = py_wrapper.compile(artifact_of(MLP), PyOptions(find_runtime=find_runtime))
    with pytest.raises(ExecutionError):
        f(torch.randn(3, 7), torch.randn(8, 4))
    assert torch.is_grad_enabled()


def test_poison_makes_a_missing_write_visible() -> None:
    program = parse_program(f"{HEAD}func @main() {{\n  %y = alloc f32[2]\n  return %y\n}}\n")
    want = torch.full((8,), 0x7B, dtype=torch.uint8).view(torch.float32)
    (a,) = run(program, [], TORCH_MACHINE, InterpOptions(poison=0x7B))
    f = py_wrapper.compile(bare_artifact(program), PyOptions(poison=0x7B))
    (b,) = f.boxed([])
    assert torch.equal(a, want)
    assert torch.equal(b, want)


def test_poison_leaves_what_lies_beside_a_donated_argument() -> None:
    """Autograd donates parts of a `chunk`, which share a storage."""
    params, body = "%x: owned f32[2], %y: owned f32[2]", "%b = call aten::relu(%y) : f32[2]"
    text = f"{HEAD}func @main({params}) {{\n  %a = call aten::relu(%x) : f32[2]\n  free %x\n  {body}\n  free %y\n"
    program = parse_program(f"{text}  return %a, %b\n}}\n")
    f = py_wrapper.compile(bare_artifact(program), PyOptions(poison=0x7B))
    for run_it in (f.boxed, lambda x: run(program, x, TORCH_MACHINE, InterpOptions(poison=0x7B))):
        results = run_it(list(torch.tensor([1.0, 2.0, 3.0, 4.0]).chunk(2)))
        assert [r.tolist() for r in results] == [[1.0, 2.0], [3.0, 4.0]]

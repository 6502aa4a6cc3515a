"""Functions that a device can capture: which ones, and ordinary calls of them elsewhere."""

from __future__ import annotations

import pytest

import py_wrapper
import wrapper_ir
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.json import from_json, to_json
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.cleanup.derive_frees import derive_frees

STEP = """wir 0.5
target cuda:0

symbol s0 : int backed [1, 64]

extern "aten::relu_(Tensor(a!) self) -> Tensor(a!)"
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::rand_like(Tensor self) -> Tensor" tags(random)

func @main(%x: f32[s0] @cuda:0) {
  define s0 = size(%x, 0)
  %y = call_subgraph @step(s0, %x) : f32[s0] @cuda:0
  return %y
}

func @step(%n: int, %x: f32[s0] @cuda:0) captures(s0) replayable {
  assert s0 <= 64 "too long"
  assert_layout %x [s0] [1]
  enter_profile "step"
  %r = call aten::rand_like(%x) : f32[s0] @cuda:0
  %e = record_event @cuda:0
  wait_event %e @cuda:0 stream(1)
  call aten::relu_(%r) stream(1)
  %f = record_event @cuda:0 stream(1)
  wait_event %f @cuda:0
  drop %e
  drop %f
  define u0 = item(%n)
  cond u0 > 4 then @left else @right (%r)
  exit_scope
  barrier
  return %r
}

func @left(%x: f32[s0] @cuda:0) captures(s0) {
  call aten::relu_(%x)
  return
}

func @right(%x: f32[s0] @cuda:0) captures(s0) {
  return
}
""".replace("[1, 64]\n", "[1, 64]\nsymbol u0 : int unbacked\n", 1)


def test_what_can_be_captured() -> None:
    """Host numbers, random numbers, checks of sizes, streams that are joined, branches by numbers."""
    program = wrapper_ir.parse_program(STEP)
    wrapper_ir.verify(program)
    assert [f.replayable for f in program.functions] == [False, True, False, False]
    assert wrapper_ir.parse_program(wrapper_ir.print_program(program)) == program
    assert from_json(to_json(program)) == program


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("WIR228", "  wait_event %f @cuda:0\n", ""),
        ("WIR228", "  barrier\n", "  call aten::relu_(%r) stream(1)\n  barrier\n"),
        ("WIR225", "  call aten::relu_(%x)\n  return", "  debug names %x\n  return"),
        ("WIR225", "tags(random)", "tags(effectful)"),
        ("WIR226", "%n: int, %x", "%n: int, %h: f32[4] @cpu, %x"),
    ],
)
def test_what_cannot(code: str, old: str, new: str) -> None:
    assert old in STEP
    text = STEP.replace(old, new).replace(
        "@step(s0, %x)", "@step(s0, %h, %x)" if "%h" in new else "@step(s0, %x)"
    )
    text = text.replace("func @main(%x", "func @main(%h: f32[4] @cpu, %x") if "%h" in new else text
    found = {d.code for d in wrapper_ir.check(wrapper_ir.parse_program(text))}
    assert code in found, found
    plain = wrapper_ir.check(wrapper_ir.parse_program(text.replace(" replayable", "")))
    assert not {d.code for d in plain} & {"WIR225", "WIR226", "WIR227", "WIR228"}


HANDED_ON = """wir 0.5
target cuda:0

extern "aten::relu(Tensor self) -> Tensor"

kernel foreign @k runtime "mine" (read f32* x, write f32* y) {{{
}}}

func @main(%x: f32[8] @cuda:0) {
  %z = call aten::relu(%x) : f32[8] @cuda:0
  %y = call_subgraph @step(%z) : f32[8] @cuda:0
  return %y
}

func @step(%x: f32[8] @cuda:0) replayable {
  %y = call_subgraph @inner(%x) : f32[8] @cuda:0
  return %y
}

func @inner(%x: f32[8] @cuda:0) {
  %y = alloc f32[8] @cuda:0
  launch @k(%x, %y)
  return %y
}
"""


@pytest.mark.parametrize("spec", ["move-arguments", "insert-finite-checks{outputs=true}"])
def test_passes_leave_it_replayable(spec: str) -> None:
    """They would move its argument, and check its kernel's inputs."""
    for text, same in ((HANDED_ON, True), (HANDED_ON.replace(" replayable", ""), False)):
        program = derive_frees(wrapper_ir.parse_program(text))
        changed = run_pipeline(program, spec)
        assert (changed.function("inner") == program.function("inner")) is same


def test_a_cpu_captures_nothing() -> None:
    text = HANDED_ON.replace("  launch @k(%x, %y)", "  copy %y, %x")
    program = derive_frees(wrapper_ir.parse_program(text))
    there = run_pipeline(program, "move-device{to=cuda:1}")
    assert there.function("step").replayable
    assert not run_pipeline(program, "move-device{to=cpu}").function("step").replayable


def test_emitted_python_captures_it() -> None:
    """Numbers among its arguments are part of the key. Without graphs it is called as any other."""
    artifact = bare_artifact(wrapper_ir.parse_program(STEP))
    source = str(py_wrapper.emit(artifact))
    assert '"""Subgraph @step. A device can capture it."""' in source
    assert "(y,) = replay_step([s0, x], s0)" in source
    made = (
        'replay_step = DEVICE_GRAPHS.get("cuda:0", TorchGraphs).graphed(step, "step", limit=16, tensors=(1,))'
    )
    assert made in " ".join(source.split()).replace("( ", "(").replace(", )", ")")
    never = str(py_wrapper.emit(artifact, py_wrapper.PyOptions(cuda_graphs=0)))
    plain = str(py_wrapper.emit(bare_artifact(wrapper_ir.parse_program(STEP.replace(" replayable", "")))))
    begin = "import torch"
    assert never.replace(" A device can capture it.", "").partition(begin)[2] == plain.partition(begin)[2]

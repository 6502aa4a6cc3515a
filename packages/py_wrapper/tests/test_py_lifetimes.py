"""`free` releases memory immediately, in emitted Python and in the interpreter."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

import py_wrapper
from py_wrapper import TORCH_MACHINE, PyOptions
from tests.common.compare import peak_bytes
from wrapper_ir import ir, parse_program, verify
from wrapper_ir.artifact import TensorData, bare_artifact
from wrapper_ir.plugins.protocols import KernelRuntime, LoadedKernel
from wrapper_ir_runtime.interp import InterpOptions, Interpreter

SIZE = 1 << 18  # bytes of f32[65536]
CHAIN = parse_program("""wir 0.5
target cpu
extern "aten::relu(Tensor self) -> Tensor"
func @main(%x: owned f32[65536]) {
  %a = call aten::relu(%x) : f32[65536]
  free %x
  %b = call aten::relu(%a) : f32[65536]
  %v = view %b : f32[256, 256]
  free %a
  %c = call aten::relu(%v) : f32[256, 256]
  free %b
  return %c
}
""")


def boxed_of(engine: str, program: ir.Program) -> Any:
    if engine == "python":
        return py_wrapper.compile(bare_artifact(program)).boxed
    return Interpreter(program, TORCH_MACHINE).boxed


@pytest.mark.parametrize("engine", ["python", "interpreter"])
def test_peak_of_a_chain(engine: str) -> None:
    """Two buffers at a time, because each op's input is released after it."""
    boxed = boxed_of(engine, CHAIN)
    boxed([torch.randn(65536)])
    assert peak_bytes(lambda: boxed([torch.randn(65536)])) < 2 * SIZE + 4096


@pytest.mark.parametrize("engine", ["python", "interpreter"])
def test_owned_arguments_end_inside_the_call(engine: str) -> None:
    seen: list[bool] = []

    class Runtime:
        kind = "watch"

        def load_all(self, kernels: list[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
            return {k.name: lambda x: seen.append(gone()) for k in kernels}

    program = parse_program("""wir 0.5
target cpu
kernel foreign @watch runtime "watch" (read f32* x) {{{
}}}
func @main(%d: owned f32[4], %x: f32[4]) {
  %v = view %d : f32[2, 2]
  launch @watch(%x)
  free %d
  launch @watch(%x)
  return
}
""")
    runtime: Any = Runtime()  # Any: the part of the protocol that is used

    def find(kind: str) -> KernelRuntime:
        found: KernelRuntime = runtime
        return found

    donated = torch.randn(4)
    reference = weakref.ref(donated)

    def gone() -> bool:
        return reference() is None

    args = [donated, torch.randn(4)]
    del donated
    if engine == "python":
        f = py_wrapper.compile(bare_artifact(program), PyOptions(find_runtime=find))
        f.boxed(args)
    else:
        Interpreter(program, TORCH_MACHINE, InterpOptions(find_runtime=find)).boxed(args)
    assert seen == [False, True]


def test_moved_arguments_end_in_the_callee() -> None:
    program = parse_program("""wir 0.5
target cpu
extern "aten::relu(Tensor self) -> Tensor"
func @main(%p: bool[]) {
  %a = alloc f32[65536]
  %r = cond %p then @consume else @consume (%a) : f32[65536]
  return %r
}
func @consume(%a: owned f32[65536]) {
  %b = call aten::relu(%a) : f32[65536]
  free %a
  %c = call aten::relu(%b) : f32[65536]
  free %b
  return %c
}
""")
    boxed = boxed_of("python", program)
    boxed([torch.tensor(True)])
    assert peak_bytes(lambda: boxed([torch.tensor(True)])) < 2 * SIZE + 4096


def test_the_interpreter_counts() -> None:
    interpreter = Interpreter(CHAIN, TORCH_MACHINE)
    interpreter.boxed([torch.randn(65536)])
    report = interpreter.memory
    assert (report.storages, report.total_bytes) == (3, 3 * SIZE)
    assert (report.peak_bytes, report.live_bytes) == (2 * SIZE, SIZE)


VIEWS = """wir 0.5
target cpu
extern "aten::t_(Tensor(a!) self) -> Tensor(a!)"
extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
mutable const %w : f32[4] sha256 "{hash}"
func @main() {{
  %kept = view %w : f32[2, 2]
  %sum = call aten::add.Tensor(%kept, %kept) : f32[2, 2]
  %given = view %w : f32[2, 2]
  %turned = view %w : f32[2, 2]
  %same = call aten::t_(%turned) : f32[2, 2]{{1, 2}}
  return %sum, %given, %same
}}
"""


@pytest.mark.parametrize("engine", ["python", "interpreter"])
def test_views_of_constants_that_are_handed_on_are_new_in_each_call(engine: str) -> None:
    """Changes to such a tensor by the caller or an in-place operator do not reach the next call."""
    data = TensorData(ir.DType.F32, memoryview(torch.arange(4.0).numpy().tobytes()))
    program = parse_program(VIEWS.format(hash=data.sha256()))
    verify(program)
    artifact = bare_artifact(program, {"w": data})
    run = py_wrapper.compile(artifact) if engine == "python" else Interpreter(artifact, TORCH_MACHINE)
    for _ in range(2):
        total, given, same = run()
        assert total.tolist() == [[0, 2], [4, 6]]
        assert given.tolist() == [[0, 1], [2, 3]]
        assert same.tolist() == [[0, 2], [1, 3]]
        given.unsqueeze_(0).requires_grad_()
        same.unsqueeze_(0)

"""Memory that persists from call to call: eligible storages, and isolation between calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from packages.py_wrapper.tests.persistent_program import (
    PROGRAM,
    assert_right,
    assert_threads_are_right,
    expected,
)
from packages.py_wrapper.tests.py_golden import without_version
from packages.py_wrapper.tests.stream_program import STREAMS

import py_wrapper
from py_wrapper import PyOptions
from wrapper_ir import parse_program, verify
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_passes import run_pipeline
from wrapper_ir_runtime import BufferPool

GOLDEN = Path(__file__).parent / "golden" / "persistent.py.txt"
PERSISTENT = PyOptions(name="persistent", persistent_buffers=True)


def compiled(text: str = PROGRAM, options: PyOptions = PERSISTENT) -> CompiledProgram:
    program = parse_program(text)
    verify(program)
    return py_wrapper.compile(bare_artifact(program), options)


def planned() -> CompiledProgram:
    """A planned program whose calls keep tensors but no memory."""
    program = run_pipeline(parse_program(PROGRAM), "plan-memory{slack=100}")
    return py_wrapper.compile(bare_artifact(program))


each_way = pytest.mark.parametrize("made", [compiled, planned])
Made = Callable[[], CompiledProgram]


def test_text(update_golden: bool) -> None:
    """Consecutive storages share a block; those that are zeroed only once have a separate one."""
    text = without_version(py_wrapper.emit(bare_artifact(parse_program(PROGRAM)), PERSISTENT).source)
    if update_golden:
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


@each_way
def test_calls_find_the_buffers_of_earlier_ones_and_results_are_the_callers(made: Made) -> None:
    run = made()
    first = assert_right(run)
    before = [t.clone() for t in first]
    assert_right(run)
    assert all(map(torch.equal, first, before))


@each_way
def test_a_first_call_in_inference_mode_leaves_buffers_for_all(made: Made) -> None:
    run = made()
    with torch.inference_mode():
        assert_right(run)
    assert_right(run)


@each_way
def test_threads_have_buffers_of_their_own(made: Made) -> None:
    assert_threads_are_right(made())


@each_way
def test_a_call_that_fails_costs_a_set_of_buffers_and_nothing_else(made: Made) -> None:
    run = made()
    assert_right(run)
    with pytest.raises(ExecutionError):
        run.boxed([torch.randn(4, 4), torch.randn(5, 4)])
    assert_right(run)


def test_windows_are_kept_and_their_memory_is_not() -> None:
    """A planned call creates only results, and allocates each pool at its begin."""
    run = planned()
    assert_right(run)
    pool = run.boxed.__globals__["buffer_pool"]
    held = pool.take(0)
    windows = [x for x in held if isinstance(x, torch.Tensor)]
    assert windows
    assert not any(window.untyped_storage().nbytes() for window in windows)
    assert "reinterpret" not in inspect.getsource(run.boxed.__globals__["main"])


@pytest.mark.parametrize(
    "text",
    [PROGRAM.replace("  free %a.s\n", "  resize_storage %a, 64\n  free %a.s\n"), STREAMS],
    ids=["memory that changes its size", "several streams"],
)
def test_nothing_is_persistent(text: str) -> None:
    source = py_wrapper.emit(bare_artifact(parse_program(text)), PERSISTENT).source
    assert "new_buffers" not in source
    assert "empty_c" in source


def test_symbolic_sizes_are_allocated_by_each_call() -> None:
    text = """wir 0.5
target cpu
symbol s0 : int backed [2, 1024] hint 8
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
func @main(%x: f32[s0, 4], %w: f32[4, 4]) {
  define s0 = size(%x, 0)
  %a = alloc f32[s0, 4]
  call aten::mm.out(%x, %w, out=%a)
  %b = alloc f32[s0, 4]
  call aten::mm.out(%a, %w, out=%b)
  free %a.s
  return %b
}
"""
    assert "new_buffers" not in py_wrapper.emit(bare_artifact(parse_program(text)), PERSISTENT).source
    x, w = torch.randn(7, 4), torch.randn(4, 4)
    torch.testing.assert_close(compiled(text).boxed([x, w])[0], x @ w @ w)


def test_spare_buffers_belong_to_a_key() -> None:
    made = iter(range(10))
    pool = BufferPool(lambda: next(made))
    assert [pool.take(1), pool.take(1), pool.take(2)] == [0, 1, 2]
    pool.give(1, 0)
    assert [pool.take(2), pool.take(1), pool.take(1)] == [3, 0, 4]
    pool.give(None, 4)  # captured into a graph
    assert pool.take(None) == 5


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="the program runs on a CUDA device, and there is none"
)
def test_on_a_device() -> None:
    """Workspaces among the persistent memory: one that each call zeroes, and one that is zero once."""
    major, minor = torch.cuda.get_device_capability()
    run = compiled(PROGRAM.replace("target cpu", f'target cuda:0 arch "sm_{major}{minor}"'))
    for _ in range(3):
        x, w = torch.randn(4, 4), torch.randn(4, 4)
        got = run.boxed([x.cuda(), w.cuda()])
        assert {t.device.type for t in got} == {"cuda"}
        torch.testing.assert_close(tuple(t.cpu() for t in got), expected(x, w), rtol=1e-3, atol=1e-3)

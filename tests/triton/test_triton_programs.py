"""Programs with Triton kernels, written as text, on CPU: the interpreter and emitted Python compute what torch does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import py_wrapper
from py_wrapper import TORCH_MACHINE
from triton_runtime import LaunchError, TritonOptions, TritonRuntime
from triton_runtime.fake import FakeDriver
from wrapper_ir import parse_program, print_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.interp import InterpOptions, run
from wrapper_ir.program import Target
from wrapper_ir.types import Device

PROGRAM = """wir 0.2
target cpu

symbol s0 : int backed [2, 100000] hint 8

kernel triton @add_relu entry "add_relu" (read f32* x_ptr divisible(16), read f32* y_ptr divisible(16), write f32* out_ptr divisible(16), i64 n)
  order(x_ptr, y_ptr, out_ptr, n, BLOCK)
  configs({BLOCK = 256} warps(4) stages(1), {BLOCK = 64} warps(2) stages(1))
  grid(min(ceildiv(n, BLOCK), g), ceildiv(ceildiv(n, BLOCK), g)) over(g)
  {{{
import triton
import triton.language as tl

@triton.jit
def add_relu(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    block = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, tl.maximum(total, 0.0), mask=inside)
}}}
kernel triton @gelu_ entry "gelu" (readwrite f32* x_ptr, i64 n)
  order(x_ptr, n, scale, BLOCK)
  constants(scale = 0.5)
  configs({BLOCK = 128} warps(4) stages(1))
  grid(ceildiv(n, BLOCK))
  {{{
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def gelu(x_ptr, n, scale: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(x_ptr + at, x * scale * (1 + libdevice.erf(x * 0.7071067811865476)), mask=at < n)
}}}

func @main(%x: f32[s0, 3], %y: f32[s0, 3]) {
  define s0 = size(%x, 0)
  %out = alloc f32[s0, 3]
  launch @add_relu(%x, %y, %out, 3*s0) grid(2)
  launch @gelu_(%out, 3*s0)
  return %out
}
"""


def expected(x: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.gelu((x + y).relu())


def artifact() -> Artifact:
    program = parse_program(PROGRAM)
    verify(program)
    assert parse_program(print_program(program)) == program
    return bare_artifact(program)


def interpreted(x: Tensor, y: Tensor) -> Tensor:
    [result] = run(artifact(), [x, y], TORCH_MACHINE)
    assert isinstance(result, Tensor)
    return result


def emitted(x: Tensor, y: Tensor) -> Tensor:
    [result] = py_wrapper.compile(artifact()).boxed([x, y])
    assert isinstance(result, Tensor)
    return result


@pytest.mark.parametrize("engine", [interpreted, emitted])
@pytest.mark.parametrize("rows", [2, 85, 700])
def test_interpreter_and_emitted_python_compute_what_torch_does(
    engine: Callable[[Tensor, Tensor], Tensor], rows: int
) -> None:
    x, y = torch.randn(rows, 3), torch.randn(rows, 3)
    torch.testing.assert_close(engine(x, y), expected(x, y), rtol=1e-6, atol=1e-6)


def test_a_written_folder_runs_alone(tmp_path: Path) -> None:
    main = py_wrapper.EMITTER.write(artifact(), tmp_path / "folder")[0]
    done = subprocess.run(
        [sys.executable, str(main)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_a_chosen_config_and_recorded_launches() -> None:
    """The grid's sizes follow the config that was chosen; the program gives the rest."""
    driver = FakeDriver()
    options = TritonOptions(driver=driver, choose=lambda kernel: kernel.configs[-1])
    x, y = torch.randn(500, 3), torch.randn(500, 3)
    runtime = TritonRuntime(options=options)
    run(artifact(), [x, y], TORCH_MACHINE, InterpOptions(find_runtime=lambda kind: runtime))
    assert [(r.kernel.name, r.grid) for r in driver.launches] == [
        ("add_relu", (2, 12, 1)),
        ("gelu_", (12, 1, 1)),
    ]
    assert driver.launches[0].args[3:] == (1500, 2)


def test_kernels_of_a_program_compile_for_a_device_that_is_not_here() -> None:
    driver = FakeDriver(needs_binary=True)
    runtime = TritonRuntime(options=TritonOptions(driver=driver))
    target = Target(device=Device("cuda", 0), arch="sm_90")
    loaded = runtime.load_all(artifact().program.kernels, target)
    assert set(loaded) == {"add_relu", "gelu_"}
    assert set(runtime.compile(artifact().program.kernels, target)) == set(loaded)
    assert runtime.stats.found >= 2
    loaded["gelu_"](torch.zeros(4), 4)
    assert driver.launches[0].grid == (1, 1, 1)


def test_devices_without_a_driver_are_refused() -> None:
    with pytest.raises(LaunchError, match="'xpu'") as caught:
        TritonRuntime().load_all(artifact().program.kernels, Target(device=Device("xpu", 0)))
    assert caught.value.code == "TR305"

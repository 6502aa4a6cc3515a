"""Programs with Triton kernels, written as text, on CPU: the interpreter and emitted Python equal torch."""

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
from tests.triton.triton_program import artifact, expected
from triton_runtime import LaunchError, TritonOptions, TritonRuntime
from triton_runtime.fake import FakeDriver
from wrapper_ir import ir
from wrapper_ir_runtime.interp import InterpOptions, run


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


@pytest.mark.slow
def test_a_written_folder_runs_alone(tmp_path: Path) -> None:
    main = py_wrapper.EMITTER.write(artifact(), tmp_path / "folder")[0]
    done = subprocess.run(
        [sys.executable, str(main)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_a_chosen_config_and_recorded_launches() -> None:
    """The grid's sizes follow the chosen config; the program supplies the rest."""
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
    target = ir.Target(device=ir.Device("cuda", 0), arch="sm_90")
    loaded = runtime.load_all(artifact().program.kernels, target)
    assert set(loaded) == {"add_relu", "gelu_"}
    assert set(runtime.compile(artifact().program.kernels, target)) == set(loaded)
    assert runtime.stats.reused >= 2
    loaded["gelu_"](torch.zeros(4), 4)
    assert driver.launches[0].grid == (1, 1, 1)


def test_devices_without_a_driver_are_refused() -> None:
    with pytest.raises(LaunchError, match="'xpu'") as caught:
        TritonRuntime().load_all(artifact().program.kernels, ir.Target(device=ir.Device("xpu", 0)))
    assert caught.value.code == "TR305"

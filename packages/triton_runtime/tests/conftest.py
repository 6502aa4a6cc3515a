"""Fixtures: kernels loaded into Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from packages.triton_runtime.tests.triton_texts import launchable

from triton_runtime.interp import InterpreterDriver
from wrapper_ir.kernels import TritonKernel
from wrapper_ir.protocols import LoadedKernel
from wrapper_ir.types import CPU

Load = Callable[..., LoadedKernel]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a kernel, with its first config or another."""

    def run(kernel: TritonKernel, config: int = 0) -> LoadedKernel:
        return InterpreterDriver(folder=tmp_path).load(launchable(kernel, config), CPU)

    return run

"""Kernels of a graph that is not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel


@dataclass(frozen=True, slots=True)
class UnloadedKernels:
    """A `KernelRuntime` that compiles and loads nothing, and needs no device."""

    kind: str

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """Returns a placeholder of the kernel."""
        return self._launch

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """Returns a placeholder of each kernel."""
        return {kernel.name: self._launch for kernel in kernels}

    def _launch(self, *args: object) -> NoReturn:
        raise AssertionError("the kernels of a graph that is only read are not loaded")

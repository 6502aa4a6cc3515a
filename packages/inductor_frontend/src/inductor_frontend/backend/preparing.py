"""Starts the kernel runtime early, in parallel with the import of Inductor and the lowering of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import torch

from wrapper_ir import ir
from wrapper_ir.errors import PluginError
from wrapper_ir.plugins.protocols import PreparingRuntime
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_runtime.kernels import kernels_by_runtime

_COMPILED_AS_A_WHOLE = frozenset({"cpu", "meta"})
"""Types of devices whose kernels need no preparation: one compiler run compiles them with the program."""


def prepare_kernels(inputs: Sequence[object]) -> None:
    """Prepares the Triton kernel runtime for the devices of a graph's inputs, except the host.

    Kernels for the host are compiled as a whole by an installed compiler.
    """
    types = {x.device.type for x in inputs if isinstance(x, torch.Tensor)} - _COMPILED_AS_A_WHOLE
    if not types:
        return
    runtime = _runtime()
    if runtime is not None:
        for device_type in sorted(types):
            runtime.prepare(device_type)


def compile_early(program: ir.Program) -> None:
    """Starts to compile the Triton kernels of a captured program.

    This runs in parallel with passes, verification and emission. If a pass removes a kernel, its compilation
    is wasted.
    """
    if program.target.device.type in _COMPILED_AS_A_WHOLE:
        return
    kernels = kernels_by_runtime(program.kernels).get("triton")
    runtime = _runtime() if kernels else None
    if runtime is not None and kernels:
        runtime.compile_early(kernels, program.target)


def _runtime() -> PreparingRuntime | None:
    """Returns the runtime of Triton kernels. None if it is not installed: a program may have no such
    kernels."""
    with suppress(PluginError):
        runtime = kernel_runtime("triton")
        return runtime if isinstance(runtime, PreparingRuntime) else None
    return None

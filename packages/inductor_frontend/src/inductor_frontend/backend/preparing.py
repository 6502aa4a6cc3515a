"""What loading kernels takes is started while Inductor is imported and the graph is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from wrapper_ir import ir
from wrapper_ir.errors import PluginError
from wrapper_ir.plugins.protocols import PreparingRuntime
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_runtime.kernels import kernels_by_runtime

_COMPILED_AS_A_WHOLE = frozenset({"cpu", "meta"})
"""Types of devices whose kernels are compiled by a compiler that is there."""


def prepare_kernels(inputs: Sequence[Any]) -> None:  # Any: tensors, symbolic and plain numbers
    """Has the runtime of Triton kernels prepare for the devices that a graph's inputs are on, other than the host: kernels for
    that are compiled as a whole, by a compiler that is there."""
    types = {x.device.type for x in inputs if isinstance(x, torch.Tensor)} - _COMPILED_AS_A_WHOLE
    if not types:
        return
    runtime = _runtime()
    if runtime is not None:
        for device_type in sorted(types):
            runtime.prepare(device_type)


def compile_early(program: ir.Program) -> None:
    """Has the runtime of Triton kernels compile those of a captured program, while passes, verification and emission go on. A pass may
    drop a kernel: it has then been compiled for nothing."""
    if program.target.device.type in _COMPILED_AS_A_WHOLE:
        return
    kernels = kernels_by_runtime(program.kernels).get("triton")
    runtime = _runtime() if kernels else None
    if runtime is not None and kernels:
        runtime.compile_early(kernels, program.target)


def _runtime() -> PreparingRuntime | None:
    """None: a program without Triton kernels needs none."""
    with suppress(PluginError):
        runtime = kernel_runtime("triton")
        return runtime if isinstance(runtime, PreparingRuntime) else None
    return None

"""Supported compilation targets."""

from __future__ import annotations

import re

from triton_runtime.errors import CompileError
from wrapper_ir import ir

_ARCH = re.compile(r"sm_(\d{2,3})[af]?")
_OLDEST = 75


def capability(target: ir.Target) -> int:
    """The compute capability of a CUDA target: 90 for `sm_90`.

    Raises CompileError TR202 for other devices and architectures.
    """
    if target.device.type != "cuda":
        raise CompileError(
            "TR202",
            f"Triton kernels are compiled for cuda devices, not for '{target.device.type}'",
            "programs for the CPU run their Triton kernels in Triton's interpreter",
        )
    match = _ARCH.fullmatch(target.arch)
    if match is None or int(match[1]) < _OLDEST:
        raise CompileError(
            "TR202",
            f"'{target.arch}' is not an architecture that Triton compiles for",
            'name it as in `target cuda:0 arch "sm_90"`; sm_75 is the oldest',
        )
    return int(match[1])

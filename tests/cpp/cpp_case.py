"""Small programs in text form with kernels in C++, and their expected results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from packages.py_wrapper.tests.py_case import HEADER, Case
from torch import Tensor

from cpp_wrapper import CppOptions
from cpp_wrapper._compat import open_runner
from py_wrapper import TORCH_MACHINE
from wrapper_ir import parse_program
from wrapper_ir.artifact import Artifact, bare_artifact

FAST = CppOptions(opt_level=0)
KERNELS = """
kernel cpp @double entry "kernel" (read f32* source, write f32* target, i64 count) {{{
#include <cstdint>
extern "C" void kernel(const float* source, float* target, const int64_t count)
{
    for (int64_t i = 0; i < count; ++i) target[i] = 2 * source[i];
}
}}}
kernel cpp @increment entry "kernel" (readwrite f32* x, i64 count) {{{
#include <cstdint>
extern "C" void kernel(float* x, const int64_t count)
{
    for (int64_t i = 0; i < count; ++i) x[i] += 1;
}
}}}
"""


def artifact_of_text(text: str, constants: Mapping[str, Tensor] | None = None) -> Artifact:
    """The artifact of a program; `constants` are its data by name."""
    data = {name: TORCH_MACHINE.data(tensor) for name, tensor in (constants or {}).items()}
    return bare_artifact(parse_program(HEADER + text), data)


def artifact_of(case: Case) -> Artifact:
    """The case's program with its constants."""
    return artifact_of_text(case.text, case.constants)


def stock_run(library: Path, inputs: list[Any]) -> list[Tensor]:
    """Returns the results of torch's own runner; numbers are passed as tensors."""
    kinds = {int: torch.int64, float: torch.float64, bool: torch.bool}
    flat = [x if isinstance(x, Tensor) else torch.tensor(x, dtype=kinds[type(x)]) for x in inputs]
    return list(open_runner(library).run(flat))


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

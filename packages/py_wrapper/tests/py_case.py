"""A small program as text, with inputs and expected results, and a kernel runtime in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from py_wrapper import TORCH_MACHINE
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.plugins.protocols import KernelRuntime, LoadedKernel

# --- a kernel runtime whose kernels are Python functions


def _double(source: Tensor, target: Tensor, count: int) -> None:
    """target = 2 * source over the first `count` elements in memory order."""
    flat_in = source.as_strided((count,), (1,))
    target.as_strided((count,), (1,)).copy_(flat_in * 2)


def _increment(x: Tensor) -> None:
    x.add_(1)


FUNCTIONS: Mapping[str, LoadedKernel] = {"double": _double, "increment": _increment}


class PythonKernels:
    """The runtime `pytest-kernels`: the payload names a function."""

    kind = "pytest-kernels"

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        assert isinstance(kernel, ir.ForeignKernel)
        return FUNCTIONS[kernel.payload.strip()]

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        return {k.name: self.load(k, target) for k in kernels}


def find_runtime(kind: str) -> KernelRuntime:
    """Finds the runtime of these tests only."""
    assert kind == PythonKernels.kind
    return PythonKernels()


# --- cases


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`expected` receives clones of the inputs and returns the results. `after` checks the inputs after a
    call."""

    name: str
    text: str
    inputs: Callable[[], list[Any]]
    expected: Callable[..., tuple[Any, ...]]
    after: Callable[..., tuple[Any, ...]] | None = None
    constants: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def program(self) -> ir.Program:
        return parse_program(HEADER + self.text)


HEADER = """wir 0.5
target cpu

symbol s0 : int backed [2, 1024] hint 8
symbol s1 : int backed [2, 1024] hint 4
symbol u0 : int unbacked [0, *]
symbol u1 : float unbacked

"""

KERNELS = """
kernel foreign @double runtime "pytest-kernels" (read f32* source, write f32* target, i64 count) {{{
double
}}}
kernel foreign @increment runtime "pytest-kernels" (readwrite f32* x) {{{
increment
}}}
"""
MM = 'extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"\n'
RELU = 'extern "aten::relu(Tensor self) -> Tensor"\n'
TOPK = (
    'extern "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) '
    '-> (Tensor values, Tensor indices)"\n'
)
ADD = 'extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"\n'


def artifact_of(case: Case) -> Artifact:
    """The case's program with its constants."""
    program, data = case.program, {}
    for constant in program.constants:
        data[constant.value.name] = TORCH_MACHINE.data(case.constants[constant.value.name])
    return bare_artifact(program, data)


def example(*sizes: int) -> Tensor:
    """A tensor of normal floats, the same for the same sizes."""
    generator = torch.Generator().manual_seed(sum(sizes) + len(sizes))
    return torch.randn(sizes, generator=generator)

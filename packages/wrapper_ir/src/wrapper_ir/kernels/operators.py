"""Library operators as kernels, so that they can be among those that one is chosen from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.kernels.params import KernelParam
from wrapper_ir.kernels.triton import ConstantValue

__all__ = ["OperatorConstant", "OperatorKernel"]

OperatorConstant = ConstantValue | tuple[int, ...]
"""A number, a string, an element type, None, or a list of whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorKernel:
    """A call of an operator that writes what it computes into its arguments, as a kernel does.

    `params` and `constants` are called as the arguments of `schema`, which decides which are written, and give a value to
    each that has no default. Tensors keep the sizes and strides of what a launch passes.
    Text: `kernel operator @mm "aten::mm.out(...) -> ..." (read f32* self, read f32* mat2, write f32* out)`,
    `kernel operator @add "aten::add.out(...) -> ..." (read f32* self, write f32* out) constants(alpha = 2)`.
    """

    kind: ClassVar[str] = "operator"
    syntax: ClassVar[str] = "kernel operator {name:reference} {schema} ({params})< constants({constants})>"

    name: str
    params: tuple[KernelParam, ...]
    schema: str
    constants: tuple[tuple[str, OperatorConstant], ...] = ()

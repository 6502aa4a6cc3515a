"""Run-time checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir.ir.ops.base import OpBase, Shapes, Use, Uses
from wrapper_ir.ir.ops.effects import EffectClass, EffectSpec, has, reads
from wrapper_ir.ir.types import TensorType
from wrapper_ir.ir.values import Value

AssertedLayout = tuple[Value[TensorType], tuple[Expr, ...], tuple[Expr, ...]]
"""A tensor, its sizes and its strides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertLayout(OpBase):
    """Fails unless each tensor has the given layout and alignment.

    Sizes and strides are in elements; strides of size-1 dims are not checked. If `alignment` is not 0, each
    address must be a multiple of that many bytes. With an alignment, sizes and strides may be empty and are
    then not checked.

    Text: `assert_layout %x [s0, 64] [64, 1]`,
    `assert_layout %x [4] [1], %y [2, 2] [2, 1] align(16) "inputs"`, `assert_layout %x align(16)`.
    """

    syntax: ClassVar[str] = "assert_layout {tensors}< align({alignment})>< {message}>"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.CHECK)

    tensors: Uses[TensorType]
    sizes: Shapes
    strides: Shapes
    alignment: int = 0
    message: str = ""


def asserted_layouts(op: AssertLayout) -> tuple[AssertedLayout, ...]:
    """Returns each tensor whose layout an op checks, with its sizes and strides.

    The verifier refuses ops whose lists differ in length.
    """
    layouts = zip(op.tensors, op.sizes, op.strides, strict=False)
    return tuple(layout for layout in layouts if layout[1] or layout[2] or not op.alignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertExpr(OpBase):
    """Fails with `message` unless `condition` is true, which stays as captured, not simplified.

    Text: `assert s0 <= 512 "Runtime assertion failed"`.
    """

    syntax: ClassVar[str] = "assert {condition}< {message}>"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.CHECK)

    condition: Expr
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertFinite(OpBase):
    """Fails if the tensor contains a NaN or an infinity; integer and bool tensors pass.

    Text: `assert_finite %buf0 "argument 1 of @k"`.
    """

    syntax: ClassVar[str] = "assert_finite {tensor}< {message}>"
    effect_spec: ClassVar[EffectSpec] = reads("tensor") | has(EffectClass.CHECK)

    tensor: Use[TensorType]
    message: str = ""


CheckOp = AssertLayout | AssertExpr | AssertFinite

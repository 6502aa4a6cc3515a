"""Ops that check at run time."""

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
    """Fails unless each tensor has its sizes and strides (in elements; strides of size-1 dims are free), and an address
    that is a multiple of `alignment` bytes where that is not 0. With an alignment, sizes and strides may be left out
    (empty), and are not looked at then.

    Text: `assert_layout %x [s0, 64] [64, 1]`, `assert_layout %x [4] [1], %y [2, 2] [2, 1] align(16) "inputs"`,
    `assert_layout %x align(16)`.
    """

    syntax: ClassVar[str] = "assert_layout {tensors}< align({alignment})>< {message}>"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.CHECK)

    tensors: Uses[TensorType]
    sizes: Shapes
    strides: Shapes
    alignment: int = 0
    message: str = ""


def asserted_layouts(op: AssertLayout) -> tuple[AssertedLayout, ...]:
    """The tensors whose sizes and strides an op looks at, each with these. There are as many of all; the verifier refuses
    others."""
    found = zip(op.tensors, op.sizes, op.strides, strict=False)
    return tuple(layout for layout in found if layout[1] or layout[2] or not op.alignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertExpr(OpBase):
    """Fails with `message` unless `condition` (kept as captured, never simplified) holds.

    Text: `assert s0 <= 512 "Runtime assertion failed"`.
    """

    syntax: ClassVar[str] = "assert {condition}< {message}>"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.CHECK)

    condition: Expr
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertFinite(OpBase):
    """Fails when the tensor holds a NaN or an infinity; integer and bool tensors pass.

    Text: `assert_finite %buf0 "argument 1 of @k"`.
    """

    syntax: ClassVar[str] = "assert_finite {tensor}< {message}>"
    effect_spec: ClassVar[EffectSpec] = reads("tensor") | has(EffectClass.CHECK)

    tensor: Use[TensorType]
    message: str = ""


CheckOp = AssertLayout | AssertExpr | AssertFinite

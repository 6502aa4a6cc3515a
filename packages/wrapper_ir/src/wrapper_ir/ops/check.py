"""Ops that check at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir.ops.base import OpBase, Use
from wrapper_ir.ops.effects import EffectClass, EffectSpec, has, reads
from wrapper_ir.types import TensorType

__all__ = ["AssertExpr", "AssertFinite", "AssertLayout", "CheckOp", "is_address_check"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertLayout(OpBase):
    """Fails unless the tensor has these sizes and strides (in elements; strides of size-1 dims are free),
    and an address that is a multiple of `alignment` bytes where that is not 0. With an alignment alone, sizes and strides
    are not looked at.

    Text: `assert_layout %x [s0, 64] [64, 1]`, `assert_layout %x [4] [1] align(16) "input"`, `assert_layout %x align(16)`.
    """

    syntax: ClassVar[str] = "assert_layout {tensor}< [{sizes}] [{strides}]>< align({alignment})>< {message}>"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.CHECK)

    tensor: Use[TensorType]
    sizes: tuple[Expr, ...] = ()
    strides: tuple[Expr, ...] = ()
    alignment: int = 0
    message: str = ""


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


def is_address_check(op: AssertLayout) -> bool:
    """Whether the address alone is looked at, of a tensor that has dimensions."""
    rank = len(op.tensor.type.sizes)
    return bool(op.alignment and rank) and not op.sizes and not op.strides


CheckOp = AssertLayout | AssertExpr | AssertFinite

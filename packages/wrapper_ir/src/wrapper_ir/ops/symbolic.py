"""The op that gives symbols their values."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.expr import Expr
from wrapper_ir.ops.base import OpBase

__all__ = ["Define"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Define(OpBase):
    """Defines a declared symbol in this function, once.

    Only here may an expression hold atoms: `size(%x, 0)`, `stride(%x, 1)`, `offset(%x)`, `item(%x)` (the value of a
    scalar parameter or of a one-element tensor).
    Text: `define s0 = size(%arg0, 0)`, `define u0 = item(%buf0)`, `define s1 = size(%x, 0) // 2`.
    """

    symbol: str
    expr: Expr

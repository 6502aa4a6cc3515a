"""The op that defines symbols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir.ir.atoms import item_values
from wrapper_ir.ir.ops.base import OpBase, SymbolName
from wrapper_ir.ir.ops.effects import NO_EFFECTS, EffectContext, Effects
from wrapper_ir.ir.values import is_tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Define(OpBase):
    """Defines a declared symbol, once per function.

    Only here may an expression contain atoms: `size(%x, 0)`, `stride(%x, 1)`, `offset(%x)`, and `item(%x)`
    (the value of a scalar parameter or of a one-element tensor).

    Text: `define s0 = size(%arg0, 0)`, `define u0 = item(%buf0)`, `define s1 = size(%x, 0)//2`.
    """

    syntax: ClassVar[str] = "define {symbol} = {expr}"

    symbol: SymbolName
    expr: Expr

    def effects(self, context: EffectContext) -> Effects:
        """Reads the tensors under `item`."""
        tensors = tuple(v for v in item_values(self.expr) if is_tensor(v))
        return Effects(reads=tensors) if tensors else NO_EFFECTS

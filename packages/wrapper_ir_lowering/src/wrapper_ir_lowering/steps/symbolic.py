"""The step that defines symbols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir_lowering.steps.base import StepBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Define(StepBase):
    """Gives a symbol its value. Only this step evaluates expressions of tensors.

    `fits` is true if the value is known to fit 64 bits; any other is checked. Text: `define s0 = size(%x,
    0)`.
    """

    syntax: ClassVar[str] = "define {symbol:bare} = {expr}"

    symbol: str
    expr: Expr
    fits: bool

"""The definition of symbols."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.expr.width import stays_int64
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import Step


def define(op: ir.Define, state: FunctionState) -> Iterator[Step]:
    """A symbol has a value from here on."""
    state.defined.add(op.symbol)
    yield steps.Define(symbol=op.symbol, expr=op.expr, fits=stays_int64(op.expr), at=state.at)

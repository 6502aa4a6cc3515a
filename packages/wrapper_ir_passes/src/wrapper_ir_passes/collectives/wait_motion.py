"""Ops that a collective may move past."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses

_WORK = ir.CallExtern | ir.Copy | ir.Launch
_PASSABLE = ir.AllocStorage | ir.AssertLayout | ir.Comment | ir.Define | ir.Slot | ir.View | _WORK
_FENCES = frozenset(
    {ir.EffectClass.COLLECTIVE, ir.EffectClass.EFFECT, ir.EffectClass.HOST_IO, ir.EffectClass.RANDOM}
)


def may_pass(op: ir.Op, analyses: Analyses) -> bool:
    """Whether a collective, or the wait for one, may move past an op that uses none of its memory."""
    if isinstance(op, ir.View) and op.mode is not ir.ViewMode.ALIAS:
        return False
    if isinstance(op, ir.Allocation) and op.result.type.is_group_memory:
        return False
    return isinstance(op, _PASSABLE) and _FENCES.isdisjoint(op.effects(analyses).classes)

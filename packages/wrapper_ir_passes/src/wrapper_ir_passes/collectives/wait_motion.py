"""Ops that a collective may move past."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses

_FENCES = frozenset(
    {ir.EffectClass.COLLECTIVE, ir.EffectClass.EFFECT, ir.EffectClass.HOST_IO, ir.EffectClass.RANDOM}
)


def may_pass(op: ir.Op, analyses: Analyses) -> bool:
    """Returns whether a collective, or the wait for one, may move past an op that uses none of its memory."""
    match op:
        case ir.View(mode=mode):
            return mode is ir.ViewMode.ALIAS
        case ir.AllocStorage() | ir.Slot():
            return not op.result.type.is_group_memory
        case ir.AssertLayout() | ir.Comment() | ir.Define():
            return True
        case ir.CallExtern() | ir.Copy() | ir.Launch():
            return _FENCES.isdisjoint(op.effects(analyses).classes)
        case _:
            return False

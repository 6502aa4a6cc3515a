"""Which ops a collective may be finished after instead of before."""

from __future__ import annotations

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.ir.ops import (
    AllocStorage,
    AssertLayout,
    CallExtern,
    Comment,
    Copy,
    Define,
    EffectClass,
    Launch,
    Op,
    Slot,
    View,
    ViewMode,
)

_WORK = CallExtern | Copy | Launch
_PASSABLE = AllocStorage | AssertLayout | Comment | Define | Slot | View | _WORK
_FENCES = frozenset({EffectClass.COLLECTIVE, EffectClass.EFFECT, EffectClass.HOST_IO, EffectClass.RANDOM})


def may_pass(op: Op, analyses: Analyses) -> bool:
    """Whether a collective, or the wait for one, may move to after an op that uses none of its memory."""
    if isinstance(op, View) and op.mode is not ViewMode.ALIAS:
        return False
    if isinstance(op, AllocStorage | Slot) and op.result.type.is_group_memory:
        return False
    return isinstance(op, _PASSABLE) and _FENCES.isdisjoint(op.effects(analyses).classes)

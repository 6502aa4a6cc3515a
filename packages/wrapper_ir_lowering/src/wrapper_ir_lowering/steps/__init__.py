"""The closed set of steps, one file per family.

`Step` is the union that every emitter must handle completely: by a `match` that ends in `assert_never`, or by
a module per family (`wrapper_ir_lowering.writers`).
"""

from __future__ import annotations

from typing import get_args

from wrapper_ir_lowering.steps.base import BEFORE, Origin, StepBase, Stream
from wrapper_ir_lowering.steps.calls import (
    Argument,
    CallOperator,
    CallStep,
    Given,
    Launch,
    StartCollective,
    Unpack,
    Wait,
)
from wrapper_ir_lowering.steps.checks import (
    CheckAlignment,
    CheckApart,
    CheckCondition,
    CheckFinite,
    CheckGroups,
    CheckInputs,
    CheckLayout,
    CheckReason,
    CheckResult,
    CheckStep,
    CheckStorages,
)
from wrapper_ir_lowering.steps.control import Call, FunctionPlan, Loop, ReplayFacts, Return, Step, Switch
from wrapper_ir_lowering.steps.debug import Comment, DebugStep, SaveValue, ShowLine, ShowValue
from wrapper_ir_lowering.steps.memory import (
    Align,
    Allocate,
    BeginSlot,
    ByteWindow,
    Copy,
    EndNames,
    EndStorage,
    MemoryStep,
    ResizeBlock,
    ResizeStorage,
    Same,
    SetStorage,
    SlotPlace,
    ViewStep,
    Window,
    Zero,
)
from wrapper_ir_lowering.steps.placement import (
    Barrier,
    EnterDevice,
    EnterPool,
    EnterProfile,
    ExitScope,
    PlacementStep,
    RecordEvent,
    SyncEvent,
    WaitEvent,
)
from wrapper_ir_lowering.steps.symbolic import Define

__all__ = [
    "BEFORE",
    "STEPS",
    "Align",
    "Allocate",
    "Argument",
    "Barrier",
    "BeginSlot",
    "ByteWindow",
    "Call",
    "CallOperator",
    "CallStep",
    "CheckAlignment",
    "CheckApart",
    "CheckCondition",
    "CheckFinite",
    "CheckGroups",
    "CheckInputs",
    "CheckLayout",
    "CheckReason",
    "CheckResult",
    "CheckStep",
    "CheckStorages",
    "Comment",
    "Copy",
    "DebugStep",
    "Define",
    "EndNames",
    "EndStorage",
    "EnterDevice",
    "EnterPool",
    "EnterProfile",
    "ExitScope",
    "FunctionPlan",
    "Given",
    "Launch",
    "Loop",
    "MemoryStep",
    "Origin",
    "PlacementStep",
    "RecordEvent",
    "ReplayFacts",
    "ResizeBlock",
    "ResizeStorage",
    "Return",
    "Same",
    "SaveValue",
    "SetStorage",
    "ShowLine",
    "ShowValue",
    "SlotPlace",
    "StartCollective",
    "Step",
    "StepBase",
    "Stream",
    "Switch",
    "SyncEvent",
    "Unpack",
    "ViewStep",
    "Wait",
    "WaitEvent",
    "Window",
    "Zero",
]


STEPS: tuple[type[StepBase], ...] = get_args(Step)
"""The classes of all steps, in the order of the union."""

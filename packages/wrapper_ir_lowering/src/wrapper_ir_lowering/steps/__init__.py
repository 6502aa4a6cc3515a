"""The closed set of steps, one file a family.

`Step` is the union that every emitter handles completely: with `match` ending in `assert_never`, or with a table that a test
compares with `STEPS`.
"""

from __future__ import annotations

from typing import get_args

# Every family's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir_lowering.steps.base import *
from wrapper_ir_lowering.steps.calls import *
from wrapper_ir_lowering.steps.checks import *
from wrapper_ir_lowering.steps.control import *
from wrapper_ir_lowering.steps.debug import *
from wrapper_ir_lowering.steps.memory import *
from wrapper_ir_lowering.steps.placement import *
from wrapper_ir_lowering.steps.symbolic import *

STEPS: tuple[type[StepBase], ...] = get_args(Step)
"""The classes of all steps, in the order of the union."""

"""Lowers programs to linear plans of typed steps, so that all decisions of emitters are made once.

`lower(artifact)` returns a `Plan`, which an emitter writes as code. `wir lower FILE` prints it.
"""

from __future__ import annotations

from wrapper_ir_lowering.options import LoweringOptions
from wrapper_ir_lowering.persistent import PersistentMemory, PersistentWindow
from wrapper_ir_lowering.plan import ConstantBytes, ConstantWindow, Plan
from wrapper_ir_lowering.printer import print_plan, print_step
from wrapper_ir_lowering.program import lower
from wrapper_ir_lowering.steps import FunctionPlan

__all__ = [
    "ConstantBytes",
    "ConstantWindow",
    "FunctionPlan",
    "LoweringOptions",
    "PersistentMemory",
    "PersistentWindow",
    "Plan",
    "lower",
    "print_plan",
    "print_step",
]

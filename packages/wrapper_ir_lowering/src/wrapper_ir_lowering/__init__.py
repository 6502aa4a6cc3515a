"""Lowers programs to linear plans of typed steps, so that all decisions of emitters are made once.

`lower(artifact)` returns a `Plan`, which an emitter writes as code. `wir lower FILE` prints it.

Names are imported on first use: a cached function needs no plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
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

_MODULES = {
    "options": ("LoweringOptions",),
    "persistent": ("PersistentMemory", "PersistentWindow"),
    "plan": ("ConstantBytes", "ConstantWindow", "Plan"),
    "printer": ("print_plan", "print_step"),
    "program": ("lower",),
    "steps": ("FunctionPlan",),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)

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

_HOME = {
    "ConstantBytes": "plan",
    "ConstantWindow": "plan",
    "FunctionPlan": "steps",
    "LoweringOptions": "options",
    "PersistentMemory": "persistent",
    "PersistentWindow": "persistent",
    "Plan": "plan",
    "lower": "program",
    "print_plan": "printer",
    "print_step": "printer",
}
"""The module of each public name; a test compares the keys with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _HOME)

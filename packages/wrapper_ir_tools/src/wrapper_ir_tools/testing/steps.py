"""The steps, grouped by the functions that they suit."""

from __future__ import annotations

from wrapper_ir_tools.testing.steps_checks import CHECK_STEPS, ONCE_STEPS
from wrapper_ir_tools.testing.steps_kernels import KERNEL_STEPS
from wrapper_ir_tools.testing.steps_memory import MEMORY_STEPS
from wrapper_ir_tools.testing.world import Step

STEPS: tuple[Step, ...] = (*MEMORY_STEPS, *KERNEL_STEPS, *CHECK_STEPS)
"""Steps for a CPU."""

CALLED_STEPS: tuple[Step, ...] = tuple(s for s in STEPS if s not in ONCE_STEPS)
"""Steps for functions that may be called more than once in an activation of another."""

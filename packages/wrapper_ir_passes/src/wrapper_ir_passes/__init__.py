"""Passes over programs: pure functions with options and a textual form, in folders by family.

`run_pipeline(program, "derive-frees,plan-memory")` runs passes by name. The class or function of a pass is
imported from its module.
"""

from __future__ import annotations

from wrapper_ir_passes.pipeline import (
    describe_passes,
    parse_pipeline,
    print_pipeline,
    run_on_artifact,
    run_pipeline,
)
from wrapper_ir_passes.table import MEMORY_PASSES, PASSES

__all__ = [
    "MEMORY_PASSES",
    "PASSES",
    "describe_passes",
    "parse_pipeline",
    "print_pipeline",
    "run_on_artifact",
    "run_pipeline",
]

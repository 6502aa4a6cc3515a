"""Passes over programs: pure functions with options and a textual form, in folders by family.

`run_pipeline(program, "derive-frees,plan-memory")` runs passes by name. The class or function of a pass is
imported from its module.

Names are imported on first use: the import of one pass loads no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
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

_MODULES = {
    "pipeline": ("describe_passes", "parse_pipeline", "print_pipeline", "run_on_artifact", "run_pipeline"),
    "table": ("MEMORY_PASSES", "PASSES"),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)

"""Table of the modules that convert each family of steps."""

from __future__ import annotations

from fx_converter.graph import calls, checks, control, debug, memory, placement, symbolic
from fx_converter.graph.scope import FunctionScope
from wrapper_ir_lowering.writers import Writers

CONVERTERS: Writers[FunctionScope] = Writers(
    memory=memory,
    calls=calls,
    operators=calls,
    checks=checks,
    symbolic=symbolic,
    debug=debug,
    control=control,
    placement=placement,
)

"""The modules that write each family of steps."""

from __future__ import annotations

from cpp_wrapper.sources import calls, checks, control, debug, memory, operators, placement, symbolic
from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir_lowering.writers import Writers

WRITERS: Writers[FunctionScope] = Writers(
    memory=memory,
    calls=calls,
    operators=operators,
    checks=checks,
    symbolic=symbolic,
    debug=debug,
    control=control,
    placement=placement,
)

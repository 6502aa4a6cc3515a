"""Table of the modules that write each family of steps."""

from __future__ import annotations

from py_wrapper.emit import calls, checks, control, debug, memory, placement, symbolic
from py_wrapper.emit.scope import FunctionScope
from wrapper_ir_lowering.writers import Writers

WRITERS: Writers[FunctionScope] = Writers(
    memory=memory,
    calls=calls,
    operators=calls,
    checks=checks,
    symbolic=symbolic,
    debug=debug,
    control=control,
    placement=placement,
)

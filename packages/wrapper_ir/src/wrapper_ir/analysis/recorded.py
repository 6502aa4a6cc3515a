"""Which functions a device may record: see `Function.recordable`."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses


def recorded_functions(analyses: Analyses) -> Mapping[str, str]:
    """For each function that is recorded, the recordable one that it is part of: itself, or one that calls it."""
    found: dict[str, str] = {}
    for function in analyses.program.functions:
        waiting = [function.name] if function.recordable else []
        while waiting:
            name = waiting.pop()
            if name not in found and name in analyses.functions:
                found[name] = function.name
                waiting += [callee for op in analyses.functions[name].body for callee in ir.callees(op)]
    return found

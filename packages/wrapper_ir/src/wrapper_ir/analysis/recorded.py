"""Finds the functions that a device may record; see `Function.recordable`."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses


def recorded_functions(analyses: Analyses) -> Mapping[str, str]:
    """Maps each recorded function to the recordable one that contains it: itself, or one that calls it."""
    roots: dict[str, str] = {}
    for function in analyses.program.functions:
        pending = [function.name] if function.recordable else []
        while pending:
            name = pending.pop()
            if name not in roots and name in analyses.functions:
                roots[name] = function.name
                pending += [callee for op in analyses.functions[name].body for callee in ir.callees(op)]
    return roots

"""What torch's own passes know about the calls of a program's graphs.

Torch keeps a call that nobody uses where its schema writes, or where somebody has said that it has an effect. Functions of
`targets` and kernels say so where they are defined; here is what only a program says: of operators that are tagged, and of
control flow whose functions have effects.
"""

from __future__ import annotations

import torch

from fx_converter._compat import has_effect
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import NotSupportedError
from wrapper_ir_torch import resolve


def mark_operators(analyses: Analyses) -> None:
    """Tells torch which operators of the program have effects. One that is not registered here is passed over: whoever
    calls it says so."""
    seen: set[str] = set()
    for function in analyses.program.functions:
        for op in function.body:
            if isinstance(op, ir.OperatorCall) and op.target not in seen:
                seen.add(op.target)
                if does_more(op, analyses):
                    _mark(op.target, analyses)
            elif isinstance(op, ir.Wait):
                has_effect(torch.ops._c10d_functional.wait_tensor.default)


def does_more(op: ir.Op, analyses: Analyses) -> bool:
    """Whether an op does more than to make its results."""
    effects = op.effects(analyses)
    return bool(effects.writes or effects.classes)


def _mark(name: str, analyses: Analyses) -> None:
    extern = analyses.externs.get(name)
    if extern is None:
        return
    try:
        target = resolve(extern).function
    except NotSupportedError:
        return
    has_effect(target)

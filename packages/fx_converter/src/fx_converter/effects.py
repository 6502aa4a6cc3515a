"""Side effects of a program's calls, as torch's passes see them.

Torch keeps an unused call if its schema writes, or if its target is marked as having effects. Functions of
`targets` and kernels are marked at their definition. This module marks targets whose effects follow from the
program: tagged operators, and control flow whose functions have effects.
"""

from __future__ import annotations

import torch

from fx_converter._compat import has_effect
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import NotSupportedError
from wrapper_ir_torch import resolve


def mark_operators(analyses: Analyses) -> None:
    """Marks the operators of the program that have effects. An operator that is not registered here is
    skipped; the caller reports it."""
    targets: set[str] = set()
    for function in analyses.program.functions:
        for op in function.body:
            if isinstance(op, ir.OperatorCall) and op.target not in targets:
                targets.add(op.target)
                if does_more(op, analyses):
                    _mark(op.target, analyses)
            elif isinstance(op, ir.Wait):
                has_effect(torch.ops._c10d_functional.wait_tensor.default)


def does_more(op: ir.Op, analyses: Analyses) -> bool:
    """Returns whether an op has effects beyond its results."""
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

"""Finds the definitions that the ops of a program refer to."""

from __future__ import annotations

from collections.abc import Set

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses


def launched_kernels(analyses: Analyses) -> Set[str]:
    """Names of the launched kernels, in order of the first launch; a multi-kernel counts under its own
    name."""
    return dict.fromkeys(op.kernel for op in analyses.program.ops_of(ir.Launch)).keys()


def called_operators(analyses: Analyses) -> Set[str]:
    """Names of the operators that are called or started; in order of the first call."""
    targets = (op.target for op in analyses.program.ops_of(ir.CallExtern, ir.CollectiveStart))
    return dict.fromkeys(targets).keys()


def loop_bodies(analyses: Analyses) -> Set[str]:
    """Names of the functions that are the body of a loop."""
    return {op.body_fn for op in analyses.program.ops_of(ir.WhileLoop)}

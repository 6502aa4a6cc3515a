"""Passes: pure functions from program to program, with options and a textual form."""

from wrapper_ir.passes.base import Pass
from wrapper_ir.passes.derive_frees import DeriveFrees, derive_frees, strip_frees
from wrapper_ir.passes.pipeline import PASSES, describe_passes, parse_pipeline, print_pipeline, run_pipeline

__all__ = [
    "PASSES",
    "DeriveFrees",
    "Pass",
    "derive_frees",
    "describe_passes",
    "parse_pipeline",
    "print_pipeline",
    "run_pipeline",
    "strip_frees",
]

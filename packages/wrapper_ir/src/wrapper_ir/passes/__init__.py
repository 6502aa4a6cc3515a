"""Passes: pure functions from program to program, with options and a textual form."""

from wrapper_ir.passes.base import Pass
from wrapper_ir.passes.choices import with_choices
from wrapper_ir.passes.dead_ops import EliminateDeadOps
from wrapper_ir.passes.derive_frees import DeriveFrees, derive_frees, strip_frees
from wrapper_ir.passes.finite_checks import InsertFiniteChecks
from wrapper_ir.passes.insert_checks import InsertChecks, insert_checks, missing_checks
from wrapper_ir.passes.move_arguments import MoveArguments, move_arguments
from wrapper_ir.passes.move_device import MoveDevice, devices_of
from wrapper_ir.passes.pipeline import (
    PASSES,
    describe_passes,
    parse_pipeline,
    print_pipeline,
    run_on_artifact,
    run_pipeline,
)
from wrapper_ir.passes.rename_groups import rename_groups
from wrapper_ir.passes.rename_symbols import rename_symbols
from wrapper_ir.passes.strip import StripAsserts, StripDebug
from wrapper_ir.passes.translation import Difference, check_translation, compare
from wrapper_ir.passes.tuning_programs import TuningProgram, tuning_programs

__all__ = [
    "PASSES",
    "DeriveFrees",
    "Difference",
    "EliminateDeadOps",
    "InsertChecks",
    "InsertFiniteChecks",
    "MoveArguments",
    "MoveDevice",
    "Pass",
    "StripAsserts",
    "StripDebug",
    "TuningProgram",
    "check_translation",
    "compare",
    "derive_frees",
    "describe_passes",
    "devices_of",
    "insert_checks",
    "missing_checks",
    "move_arguments",
    "parse_pipeline",
    "print_pipeline",
    "rename_groups",
    "rename_symbols",
    "run_on_artifact",
    "run_pipeline",
    "strip_frees",
    "tuning_programs",
    "with_choices",
]

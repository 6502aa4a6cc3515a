"""Analyses of programs: liveness, memory, statistics."""

from wrapper_ir.analysis.groups import groups_of
from wrapper_ir.analysis.liveness import Liveness, analyse_liveness
from wrapper_ir.analysis.memory import MemoryUse, memory_use
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.analysis.stats import ProgramStats, program_stats

__all__ = [
    "Liveness",
    "MemoryUse",
    "ProgramStats",
    "Sizes",
    "analyse_liveness",
    "groups_of",
    "memory_use",
    "program_stats",
]

"""Packs what may persist from call to call into pools, for emitters with `persistent_buffers`."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.persistence import may_persist
from wrapper_ir_passes.memory.plan_memory import PlanMemory


def with_persistent_pools(program: ir.Program, analyses: Analyses) -> ir.Program:
    """The program with pools for what may persist of `main`; storages that are not alive at the same time share memory, which
    is right as long as all work goes to one stream, in order."""
    if not may_persist(program.main):
        return program
    return PlanMemory(persistent=True).run(program, analyses)

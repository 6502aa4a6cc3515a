"""Packs storages that may persist from call to call into pools, for emitters with `persistent_buffers`."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.persistence import may_persist
from wrapper_ir_passes.memory.plan_memory import PlanMemory


def with_persistent_pools(program: ir.Program, analyses: Analyses) -> ir.Program:
    """Returns the program with pools for the persistent storages of `main`.

    Storages with disjoint lifetimes share memory, which is correct if all work is queued on one stream, in
    order.
    """
    if not may_persist(program.main):
        return program
    return PlanMemory(persistent=True).run(program, analyses)

"""Which ops take no memory but what the program gives them.

A recording of torch's allocates what operators ask for from a pool of its own. A runtime that records without such a pool can
record what needs none: kernels, copies, and operators that write where they are told and take a workspace from their caller.
"""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses

MATMULS = frozenset({"aten::mm.out", "aten::addmm.out", "aten::bmm.out", "aten::baddbmm.out"})
"""Operators that write to a tensor of their caller, and need nothing more than a workspace that the caller can bring."""


def foreign_memory(op: ir.Op, analyses: Analyses) -> str:
    """Why an op may take memory that the program does not give it, callees aside; "" where it does not."""
    match op:
        case ir.AllocStorage() if op.result.type.is_group_memory:
            return f"%{op.result.name} is memory of a process group, which may release it"
        case ir.CallExtern() | ir.CollectiveStart():
            return "" if op.target in MATMULS else f"{op.target} allocates memory of its own"
        case ir.Launch():
            name = _operator(op.kernel, analyses)
            return f"@{op.kernel} may be {name}, which may allocate memory of its own" if name else ""
        case _:
            return ""


def _operator(kernel: str, analyses: Analyses) -> str:
    """An operator that a launch of a kernel may call; "" for none."""
    waiting = [kernel]
    while waiting:
        one: ir.KernelDef | None = analyses.kernels.get(waiting.pop())
        if isinstance(one, ir.MultiKernel):
            waiting += [variant.kernel for variant in one.variants]
        elif isinstance(one, ir.OperatorKernel):
            return one.schema.partition("(")[0].strip()
    return ""


def function_foreign_memory(name: str, analyses: Analyses) -> str:
    """Why a function, with all that it calls, takes memory that the program does not give it; "" where it does not."""
    return next((why for op in _all_ops(name, analyses) if (why := foreign_memory(op, analyses))), "")


def _all_ops(name: str, analyses: Analyses) -> Iterator[ir.Op]:
    waiting, seen = [name], {name}
    while waiting:
        for op in analyses.functions[waiting.pop()].body:
            yield op
            inner = [
                callee for callee in ir.callees(op) if callee not in seen and callee in analyses.functions
            ]
            waiting += inner
            seen.update(inner)

"""Finds ops that allocate memory besides the program's own.

torch captures CUDA graphs with a private memory pool for the allocations of operators. A runtime without such
a pool can capture only ops that do not allocate: kernels, copies, and operators that write to an out argument
and use a workspace of their caller.
"""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses

MATMULS = frozenset({"aten::mm.out", "aten::addmm.out", "aten::bmm.out", "aten::baddbmm.out"})
"""Operators that write to an out argument, and need no memory except a workspace that the caller can
provide."""


def foreign_memory(op: ir.Op, analyses: Analyses) -> str:
    """The reason why an op, without its callees, may allocate memory outside of the program; "" if it does
    not."""
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


def _operator(name: str, analyses: Analyses) -> str:
    """An operator that a launch of a kernel may call; "" for none."""
    pending = [name]
    while pending:
        kernel: ir.KernelDef | None = analyses.kernels.get(pending.pop())
        match kernel:
            case ir.MultiKernel():
                pending += [variant.kernel for variant in kernel.variants]
            case ir.OperatorKernel():
                return kernel.schema.partition("(")[0].strip()
            case _:
                pass
    return ""


def function_foreign_memory(name: str, analyses: Analyses) -> str:
    """The reason why a function or one of its callees may allocate memory outside of the program; "" if none
    does."""
    return next((why for op in _all_ops(name, analyses) if (why := foreign_memory(op, analyses))), "")


def _all_ops(name: str, analyses: Analyses) -> Iterator[ir.Op]:
    pending, visited = [name], {name}
    while pending:
        for op in analyses.functions[pending.pop()].body:
            yield op
            callees = [c for c in ir.callees(op) if c not in visited and c in analyses.functions]
            pending += callees
            visited.update(callees)

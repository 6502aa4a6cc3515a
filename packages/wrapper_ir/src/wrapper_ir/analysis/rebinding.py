"""Finds tensors whose memory may not match their types after an op: those that operators of other libraries
write."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import SchemaError
from wrapper_ir.operators.library import may_rebind


@dataclass(frozen=True, slots=True)
class UnknownWriters:
    """Names of operators, kernels and functions that may resize the tensors that they write, or replace their
    storage."""

    operators: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


def unknown_writers(analyses: Analyses) -> UnknownWriters | None:
    """The unknown writers of a program; None if there are none, as in most programs."""
    operators = frozenset(name for name, info in analyses.extern_info.items() if _is_unknown(info))
    kernels = frozenset(name for name, kernel in analyses.kernels.items() if _runs_unknown(kernel))
    if not (operators or kernels):
        return None
    functions: set[str] = set()
    while True:
        writers = UnknownWriters(operators, kernels, frozenset(functions))
        for function in analyses.program.functions:
            if any(_calls(op, writers) for op in function.body):
                functions.add(function.name)
        if len(functions) == len(writers.functions):
            return writers


def _is_unknown(info: ir.ExternInfo) -> bool:
    return may_rebind(info.extern.name) and any(arg.written for arg in info.schema.args)


def _runs_unknown(kernel: ir.KernelDef) -> bool:
    try:
        return isinstance(kernel, ir.OperatorKernel) and may_rebind(ir.parse_schema(kernel.schema).name)
    except SchemaError:
        return False


def _calls(op: ir.Op, writers: UnknownWriters) -> bool:
    match op:
        case ir.CallExtern() | ir.CollectiveStart():
            return op.target in writers.operators
        case ir.Launch():
            return op.kernel in writers.kernels
        case _:
            return not writers.functions.isdisjoint(ir.callees(op))


def rebound_by(op: ir.Op, analyses: Analyses) -> tuple[ir.Value, ...]:
    """The tensors and storages whose memory may not match their types after the op."""
    writers = analyses.get(unknown_writers)
    if writers is None or not _calls(op, writers):
        return ()
    return tuple(dict.fromkeys(analyses.effects(op).writes))


def rebound_constants(analyses: Analyses) -> tuple[ir.Value, ...]:
    """Constants whose memory may not match their types after a call of the program, and so in the next
    call."""
    if analyses.get(unknown_writers) is None:
        return ()
    rebound: dict[ir.Value, None] = {}
    for function in analyses.program.functions:
        aliasing = analyses.aliasing(function)
        for position, op in enumerate(function.body):
            for value in rebound_by(op, analyses):
                rebound.update(dict.fromkeys((value, *aliasing.roots_at(value, position))))
    return tuple(value for value in rebound if value in analyses.constant_values)

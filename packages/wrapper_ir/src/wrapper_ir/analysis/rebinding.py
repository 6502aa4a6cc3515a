"""Tensors that may have other memory after an op than their types say: those that operators of other libraries write."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import SchemaError
from wrapper_ir.operators.library import may_rebind


@dataclass(frozen=True, slots=True)
class UnknownWriters:
    """Names of what may resize the tensors that it writes, or give them other storage, as far as anything is known of it."""

    operators: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


def unknown_writers(analyses: Analyses) -> UnknownWriters | None:
    """Those of a program; None for none, as in most programs."""
    operators = frozenset(name for name, info in analyses.extern_info.items() if _is_unknown(info))
    kernels = frozenset(name for name, kernel in analyses.kernels.items() if _runs_unknown(kernel))
    if not (operators or kernels):
        return None
    found: set[str] = set()
    while True:
        known = UnknownWriters(operators, kernels, frozenset(found))
        for function in analyses.program.functions:
            if any(_calls(op, known) for op in function.body):
                found.add(function.name)
        if len(found) == len(known.functions):
            return known


def _is_unknown(info: ir.ExternInfo) -> bool:
    return may_rebind(info.extern.name) and any(arg.written for arg in info.schema.args)


def _runs_unknown(kernel: object) -> bool:
    try:
        return isinstance(kernel, ir.OperatorKernel) and may_rebind(ir.parse_schema(kernel.schema).name)
    except SchemaError:
        return False


def _calls(op: ir.Op, known: UnknownWriters) -> bool:
    match op:
        case ir.CallExtern() | ir.CollectiveStart():
            return op.target in known.operators
        case ir.Launch():
            return op.kernel in known.kernels
        case _:
            return any(ir.calling_ops((op,))) and not known.functions.isdisjoint(ir.callees(op))


def rebound_by(op: ir.Op, analyses: Analyses) -> tuple[ir.Value, ...]:
    """The tensors and storages that an op may leave with other memory than their types say."""
    known = analyses.get(unknown_writers)
    if known is None or not _calls(op, known):
        return ()
    return tuple(dict.fromkeys(analyses.effects(op).writes))


def rebound_constants(analyses: Analyses) -> tuple[ir.Value, ...]:
    """Constants that calls of the program may leave with other memory than their types say: the next call begins with them."""
    if analyses.get(unknown_writers) is None:
        return ()
    found: dict[ir.Value, None] = {}
    for function in analyses.program.functions:
        aliasing = analyses.aliasing(function)
        for position, op in enumerate(function.body):
            for value in rebound_by(op, analyses):
                found.update(dict.fromkeys((value, *aliasing.roots_at(value, position))))
    return tuple(value for value in found if value in analyses.constant_values)

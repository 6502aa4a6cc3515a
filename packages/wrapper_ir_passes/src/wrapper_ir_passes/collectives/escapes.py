"""Ops that share a storage's memory beyond its function: other functions, outputs, collectives, operators
that keep it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.operators.symmetric import gives_up


class EscapeKind(enum.Enum):
    """The recipient of the memory."""

    OUTPUT = "output"
    COLLECTIVE = "collective"
    OTHER = "other"


class Escape(NamedTuple):
    """One op that passes the memory on, and why that matters."""

    position: int
    kind: EscapeKind
    why: str


def escapes(function: ir.Function, analyses: Analyses, storage: ir.Value) -> Iterator[Escape]:
    """Yields all ops, in order, that pass a storage on, or that use a tensor which may also be in another
    storage.

    Views and frees are excluded.
    """
    aliasing = analyses.aliasing(function)
    for position, op in enumerate(function.body):
        mine = [v for v in ir.operands(op) if storage in aliasing.roots.get(v, NO_ROOTS)]
        if not mine or isinstance(op, ir.Free):
            continue
        name = f"%{mine[0].name}"
        if isinstance(op, ir.CallingOp):
            yield Escape(position, EscapeKind.OTHER, f"{name} is given to another function")
        if any(ir.is_storage(v) for v in mine) and not isinstance(op, ir.View):
            yield Escape(position, EscapeKind.OTHER, f"%{storage.name} is given away as a whole")
        if isinstance(op, ir.Return):
            yield Escape(position, EscapeKind.OUTPUT, f"{name} is an output")
        if isinstance(op, ir.CollectiveStart):
            yield Escape(position, EscapeKind.COLLECTIVE, f"{name} is in another collective")
        keeper = _keeper(op, position, mine, function, analyses)
        if keeper:
            yield Escape(position, EscapeKind.OTHER, f"{keeper} may keep {name}")
        if any(aliasing.roots.get(v, NO_ROOTS) != (storage,) for v in mine):
            yield Escape(position, EscapeKind.OTHER, f"{name} may lie in other storages, too")


def _keeper(op: ir.Op, position: int, mine: list[ir.Value], function: ir.Function, analyses: Analyses) -> str:
    """Returns the name of an operator that may keep its arguments."""
    info = analyses.extern_info.get(op.target) if isinstance(op, ir.CallExtern) else None
    if info is None:
        return ""
    keeps = any(v in mine for _, v in analyses.aliasing(function).effects[position].may_alias)
    return info.schema.name if keeps or gives_up(info.schema) else ""

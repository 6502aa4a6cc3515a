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
        if not mine:
            continue
        name = f"%{mine[0].name}"
        match op:
            case ir.Free():
                continue
            case ir.View():
                pass
            case ir.CallSubgraph() | ir.Switch() | ir.WhileLoop():
                yield Escape(position, EscapeKind.OTHER, f"{name} is given to another function")
            case _ if any(map(ir.is_storage, mine)):
                yield Escape(position, EscapeKind.OTHER, f"%{storage.name} is given away as a whole")
            case ir.Return():
                yield Escape(position, EscapeKind.OUTPUT, f"{name} is an output")
            case ir.CollectiveStart():
                yield Escape(position, EscapeKind.COLLECTIVE, f"{name} is in another collective")
            case ir.CallExtern() if keeper := _keeper(op, mine, aliasing.effects[position], analyses):
                yield Escape(position, EscapeKind.OTHER, f"{keeper} may keep {name}")
            case _:
                pass
        if any(aliasing.roots.get(v, NO_ROOTS) != (storage,) for v in mine):
            yield Escape(position, EscapeKind.OTHER, f"{name} may lie in other storages, too")


def _keeper(op: ir.CallExtern, mine: list[ir.Value], effects: ir.Effects, analyses: Analyses) -> str:
    """Returns the name of an operator that may keep these arguments; '' if it keeps none."""
    info = analyses.extern_info.get(op.target)
    if info is None:
        return ""
    keeps = any(v in mine for _, v in effects.may_alias)
    return info.schema.name if keeps or gives_up(info.schema) else ""

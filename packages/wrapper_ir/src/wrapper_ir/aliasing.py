"""Which storage each value of a function may live in: one forward pass over the effects.

A *root* stands for one storage: the storage value of an AllocStorage, a tensor parameter, a constant, or a fresh
tensor result. Every tensor has one root, or several where it may alias.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wrapper_ir.effects import Effects, effects_of
from wrapper_ir.index import ProgramIndex
from wrapper_ir.ops import CallExtern, Op, Unpack
from wrapper_ir.program import Function, Ownership
from wrapper_ir.schemas import OpSchema, parse_schema
from wrapper_ir.types import StorageType, TensorType, TupleType
from wrapper_ir.values import Value

__all__ = ["Aliasing", "analyse_aliasing"]

Roots = tuple[Value, ...]
NO_ROOTS: Roots = ()


@dataclass(frozen=True, slots=True)
class Aliasing:
    """The result of the analysis for one function.

    `roots[v]` are the roots of a storage or tensor value; the value itself is among them where it may have storage of
    its own. `uncertain` values may or may not alias: they are dropped, never freed. `ours` are the roots that this
    function must free or hand on: its allocations, fresh results and owned parameters, by position of the defining
    op (-1 for parameters). `effects[i]` are the effects of the i-th op.
    """

    roots: dict[Value, Roots]
    uncertain: frozenset[Value]
    ours: dict[Value, int]
    effects: tuple[Effects, ...]


def _union(groups: Iterable[Roots]) -> Roots:
    return tuple(dict.fromkeys(root for group in groups for root in group))


def _returns_alias(schema: OpSchema, path: tuple[int | str, ...]) -> bool:
    """Whether the return at `path` shares storage with an argument."""
    returns = schema.returns
    if len(returns) > 1 and path and isinstance(path[0], int) and path[0] < len(returns):
        return bool(returns[path[0]].alias)
    return any(r.alias for r in returns)


class _Pass:
    def __init__(self, function: Function, index: ProgramIndex) -> None:
        self.index = index
        self.roots: dict[Value, Roots] = {c.value: (c.value,) for c in index.constants.values()}
        self.ours: dict[Value, int] = {}
        self.uncertain: set[Value] = set()
        self.calls: dict[Value, CallExtern] = {}
        self.unpacked: dict[tuple[Value, tuple[int | str, ...]], Value] = {}
        for param in function.params:
            if isinstance(param.value.type, TensorType):
                self.roots[param.value] = (param.value,)
                if param.ownership is Ownership.OWNED:
                    self.ours[param.value] = -1

    def own(self, value: Value, position: int) -> None:
        self.roots[value] = (value,)
        self.ours[value] = position

    def step(self, position: int, op: Op, effects: Effects) -> None:
        if isinstance(op, Unpack) and isinstance(op.source.type, TupleType):
            self.unpack(position, op)
            return
        for value in effects.fresh:
            if isinstance(value.type, StorageType | TensorType):
                self.own(value, position)
        for result, source in effects.aliases:
            self.roots[result] = self.roots.get(source, NO_ROOTS)
            if source in self.uncertain:
                self.uncertain.add(result)
        if effects.may_alias:
            self.may_alias(effects)
        if isinstance(op, CallExtern) and op.result is not None and isinstance(op.result.type, TupleType):
            self.calls[op.result] = op

    def may_alias(self, effects: Effects) -> None:
        sources: dict[Value, list[Value]] = {}
        for result, source in effects.may_alias:
            sources.setdefault(result, []).append(source)
        for result, group in sources.items():
            known = self.roots.get(result, (result,) if isinstance(result.type, TensorType) else NO_ROOTS)
            self.roots[result] = _union((known, *(self.roots.get(s, NO_ROOTS) for s in group)))
            self.uncertain.add(result)
            self.ours.pop(result, None)

    def unpack(self, position: int, op: Unpack) -> None:
        """Elements of a nested result: the same path gives the same tensor; unaliased returns are fresh."""
        if not isinstance(op.result.type, TensorType):
            return
        first = self.unpacked.setdefault((op.source, op.path), op.result)
        call = self.calls.get(op.source)
        extern = self.index.externs.get(call.target) if call is not None else None
        if first is not op.result:
            self.roots[op.result] = self.roots.get(first, NO_ROOTS)
            if first in self.uncertain:
                self.uncertain.add(op.result)
        elif extern is not None and not _returns_alias(parse_schema(extern.schema), op.path):
            self.own(op.result, position)
        else:
            self.roots[op.result] = _union((self.roots.get(op.source, NO_ROOTS), (op.result,)))
            self.uncertain.add(op.result)


def analyse_aliasing(function: Function, index: ProgramIndex) -> Aliasing:
    """Runs the pass; linear in the number of ops."""
    state = _Pass(function, index)
    effects = tuple(effects_of(op, index) for op in function.body)
    for position, (op, effect) in enumerate(zip(function.body, effects, strict=True)):
        state.step(position, op, effect)
    return Aliasing(state.roots, frozenset(state.uncertain), state.ours, effects)

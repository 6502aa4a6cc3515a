"""Where in its allocation each slot starts, for emitters whose target has tensors and no storages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wrapper_ir.expr import Expr, Int
from wrapper_ir.ops import AllocStorage, Free, Op, Slot, View
from wrapper_ir.program import Function
from wrapper_ir.structure import operands
from wrapper_ir.types import StorageType
from wrapper_ir.values import Value

__all__ = ["SlotPlaces", "plan_slots"]


@dataclass(frozen=True, slots=True)
class SlotPlaces:
    """For one function. `places` has, for each slot, the allocation or parameter that it lies in and the byte that it
    starts at; `views` the views of each allocation or parameter, those of its slots too, with the byte that each starts
    at; `lent` the storages that something takes as a whole, and what these lie in."""

    places: Mapping[Value, tuple[Value, Expr]] = field(default_factory=dict)
    views: Mapping[Value, Sequence[tuple[View, Expr]]] = field(default_factory=dict)
    lent: frozenset[Value] = frozenset()

    def place(self, storage: Value, offset: Expr) -> tuple[Value, Expr]:
        """The outermost storage, and the byte in it that is at `offset` of `storage`."""
        found = self.places.get(storage)
        return (storage, offset) if found is None else (found[0], found[1] + offset)


def plan_slots(function: Function) -> SlotPlaces:
    """Adds up the offsets of slots in slots; linear in the number of ops."""
    places: dict[Value, tuple[Value, Expr]] = {}
    views: dict[Value, list[tuple[View, Expr]]] = {}
    lent: set[Value] = set()
    for op in function.body:
        match op:
            case AllocStorage() | Free():
                continue
            case Slot():
                base, start = places.get(op.pool, (op.pool, Int(0)))
                places[op.result] = (base, start + op.offset)
            case View() if isinstance(op.source.type, StorageType):
                base, start = places.get(op.source, (op.source, Int(0)))
                views.setdefault(base, []).append((op, start + op.offset))
            case _:
                lent.update(_storages(op))
    lent.update([places[slot][0] for slot in lent if slot in places])
    return SlotPlaces(places, views, frozenset(lent))


def _storages(op: Op) -> list[Value]:
    return [value for value in operands(op) if isinstance(value.type, StorageType)]

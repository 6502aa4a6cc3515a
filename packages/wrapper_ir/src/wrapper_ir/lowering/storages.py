"""Storages as targets see them that have tensors and no storages: which tensor stands for one, and where slots lie in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wrapper_ir.expr import Expr, Int
from wrapper_ir.layout import exact_quotient, extent_bytes
from wrapper_ir.ops import AllocStorage, EnterMemoryPool, EnterProfile, ExitScope, Free, Op, Slot, View
from wrapper_ir.program import Function
from wrapper_ir.structure import operands
from wrapper_ir.types import CPU, DType, StorageType
from wrapper_ir.values import Value

__all__ = [
    "NO_SYMMETRIC",
    "SlotPlaces",
    "element_type",
    "is_whole",
    "lacks_symmetric",
    "made_elsewhere",
    "plan_slots",
    "storage_users",
]

NO_SYMMETRIC = (
    "WIR913",
    "the CPU has no symmetric memory, which processes on GPUs share",
    "allocate in the default memory space",
)
"""Code, message and hint for what `lacks_symmetric`."""


def lacks_symmetric(storage: StorageType) -> bool:
    """Whether a storage asks for symmetric memory on a device that has none."""
    return storage.is_symmetric and storage.device.type == CPU.type


def is_whole(view: View, storage: StorageType) -> bool:
    """Whether a view is all of a storage, so that one tensor can stand for both."""
    type = view.result.type
    return view.offset == Int(0) and type.device == storage.device and extent_bytes(type) == storage.nbytes


def made_elsewhere(function: Function) -> frozenset[Value]:
    """Storages whose first use is not in the scopes that they are made in: their memory is of the pools around the op that
    makes them."""
    if not any(isinstance(op, EnterMemoryPool) for op in function.body):
        return frozenset()
    scopes, homes, found = list[int](), dict[Value, tuple[int, ...]](), set[Value]()
    for position, op in enumerate(function.body):
        if isinstance(op, EnterMemoryPool | EnterProfile):
            scopes.append(position)
        elif isinstance(op, ExitScope):
            scopes.pop()
        elif isinstance(op, AllocStorage):
            homes[op.result] = tuple(scopes)
        else:
            here = tuple(scopes)
            found.update(v for v in operands(op) if homes.pop(v, here) != here)
    return frozenset(found)


def element_type(storage: StorageType, views: Iterable[tuple[View, Expr]]) -> DType:
    """The element type for a flat tensor in the place of a storage: its views' where they agree and it divides the
    storage's bytes and all offsets (with the views, from the storage's start), else bytes."""
    offsets, dtypes = [], set()
    for view, offset in views:
        dtypes.add(view.result.type.dtype)
        offsets.append(offset)
    if len(dtypes) != 1:
        return DType.U8
    dtype = dtypes.pop()
    parts = [storage.nbytes, *offsets]
    return dtype if all(exact_quotient(e, dtype.itemsize) is not None for e in parts) else DType.U8


def storage_users(function: Function) -> dict[Value, list[Op]]:
    """The ops that use each storage that the function makes, slots too, in order."""
    found: dict[Value, list[Op]] = {
        op.result: [] for op in function.body if isinstance(op, AllocStorage | Slot)
    }
    for op in function.body:
        for value in operands(op):
            if value in found:
                found[value].append(op)
    return found


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

"""Represents storages by tensors, for targets without storages, and locates slots in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int

NO_GROUP_MEMORY = (
    "WIR913",
    "the CPU has neither symmetric nor registered memory, which process groups on GPUs have",
    "allocate in the default memory space",
)
"""Code, message and hint for what `lacks_group_memory`."""


def lacks_group_memory(storage: ir.StorageType) -> bool:
    """Returns whether a storage requires memory of a process group on a device that has none."""
    return storage.is_group_memory and storage.device.type == ir.CPU.type


def is_whole(type: ir.TensorType, offset: Expr, storage: ir.StorageType) -> bool:
    """Returns whether a view covers a whole storage, so that one tensor can represent both."""
    return offset == Int(0) and type.device == storage.device and ir.extent_bytes(type) == storage.nbytes


def made_elsewhere(function: ir.Function) -> frozenset[ir.Value]:
    """Storages whose first use is in another scope than their allocation.

    Their memory comes from the pools around the op that allocates them.
    """
    if not function.has(ir.EnterMemoryPool):
        return frozenset()
    scopes, homes, results = list[int](), dict[ir.Value, tuple[int, ...]](), set[ir.Value]()
    for position, op in enumerate(function.body):
        match op:
            case ir.EnterMemoryPool() | ir.EnterProfile():
                scopes.append(position)
            case ir.ExitScope():
                scopes.pop()
            case ir.AllocStorage():
                homes[op.result] = tuple(scopes)
            case _:
                here = tuple(scopes)
                results.update(v for v in ir.operands(op) if homes.pop(v, here) != here)
    return frozenset(results)


def element_type(
    storage: ir.StorageType, views: Iterable[tuple[ir.View, Expr]], filled: Iterable[tuple[Expr, Expr]] = ()
) -> ir.DType:
    """The element type for a flat tensor that represents a storage.

    It is that of most views, because windows of the same element type cost least. It must divide the
    storage's bytes, the views' offsets from its start, and start and size of each slot that is `filled`;
    otherwise bytes are used.
    """
    counts: Counter[ir.DType] = Counter()
    for view, offset in views:
        dtype = view.result.type.dtype
        counts[dtype] += ir.exact_quotient(offset, dtype.itemsize) is not None
    whole = {storage.nbytes, *chain.from_iterable(filled)}
    for dtype, count in counts.most_common():
        if count and all(ir.exact_quotient(bytes, dtype.itemsize) is not None for bytes in whole):
            return dtype
    return ir.DType.U8


def storage_users(function: ir.Function) -> dict[ir.Value, list[ir.Op]]:
    """Returns the ops that use each storage of the function, including slots, in order."""
    users: dict[ir.Value, list[ir.Op]] = {op.result: [] for op in function.ops_of(ir.AllocStorage, ir.Slot)}
    for op in function.body:
        for value in ir.operands(op):
            if value in users:
                users[value].append(op)
    return users


@dataclass(frozen=True, slots=True)
class SlotPlaces:
    """Positions of a function's slots.

    `places` maps each slot to the allocation or parameter that contains it, and to its first byte. `views`
    maps each allocation or parameter to its views, including those of its slots, with their first bytes.
    `lent` contains the storages that something takes as a whole, including to fill them with zeros; `lending`
    the allocations and parameters around these.
    """

    places: Mapping[ir.Value, tuple[ir.Value, Expr]] = field(default_factory=dict)
    views: Mapping[ir.Value, Sequence[tuple[ir.View, Expr]]] = field(default_factory=dict)
    lent: frozenset[ir.Value] = frozenset()
    lending: frozenset[ir.Value] = frozenset()
    filled: Mapping[ir.Value, Sequence[tuple[Expr, Expr]]] = field(default_factory=dict)

    def place(self, storage: ir.Value, offset: Expr) -> tuple[ir.Value, Expr]:
        """Returns the outermost storage, and the byte in it that is at `offset` of `storage`."""
        place = self.places.get(storage)
        return (storage, offset) if place is None else (place[0], place[1] + offset)


def plan_slots(function: ir.Function) -> SlotPlaces:
    """Adds up the offsets of slots in slots; linear in the number of ops."""
    places: dict[ir.Value, tuple[ir.Value, Expr]] = {}
    views: dict[ir.Value, list[tuple[ir.View, Expr]]] = {}
    lent, zeros = set[ir.Value](), set[ir.Value]()
    filled: dict[ir.Value, list[tuple[Expr, Expr]]] = {}
    for op in function.body:
        match op:
            case ir.AllocStorage() | ir.Free():
                continue
            case ir.Slot():
                base, start = places.get(op.pool, (op.pool, Int(0)))
                places[op.result] = (base, start + op.offset)
                if op.zero is not ir.ZeroMode.NONE:
                    filled.setdefault(base, []).append((start + op.offset, op.result.type.nbytes))
                    zeros.add(op.result)
            case ir.View() if ir.is_storage(op.source):
                base, start = places.get(op.source, (op.source, Int(0)))
                views.setdefault(base, []).append((op, start + op.offset))
            case _:
                lent.update(_storages(op))
    lending = frozenset([places[storage][0] if storage in places else storage for storage in lent])
    return SlotPlaces(places, views, frozenset(lent | zeros), lending, filled)


def _storages(op: ir.Op) -> list[ir.Value]:
    return [value for value in ir.operands(op) if ir.is_storage(value)]


@dataclass(frozen=True, slots=True)
class SharedWindows:
    """Shared windows of a function's pools.

    `values` maps views of slots that are the same tensor, one after the other, to the value that represents
    all of them until the pool ends. `pools` maps each of these to its pool; `whole` has the one that covers a
    pool.
    """

    values: Mapping[ir.Value, ir.Value[ir.TensorType]] = field(default_factory=dict)
    pools: Mapping[ir.Value, ir.Value] = field(default_factory=dict)
    whole: Mapping[ir.Value, ir.Value[ir.TensorType]] = field(default_factory=dict)


def share_windows(function: ir.Function, slots: SlotPlaces) -> SharedWindows:
    """Returns the windows of a function's pools that are created once.

    Only pools that the function frees qualify, so that no caller holds the tensor. No op may give a tensor
    other memory.
    """
    if function.has(ir.ResizeStorage, ir.SetStorage):
        return SharedWindows()
    pools = {base for base, _ in slots.places.values()} - slots.lending
    pools &= {op.storage for op in function.ops_of(ir.Free)}
    windows: dict[ir.Value, dict[tuple[ir.TensorType, Expr], list[ir.Value]]] = {}
    places: dict[ir.Value, tuple[ir.Value, Expr]] = {}
    for op in function.ops_of(ir.View) if pools else ():
        source, at = slots.place(op.source, op.offset)
        pool, start = places.get(source, (source, Int(0)))
        if pool in pools:
            places[op.result] = pool, start + at
            windows.setdefault(pool, {}).setdefault((op.result.type, start + at), []).append(op.result)
    names = {v.name for v in ir.definitions(function)} if windows else set()
    values: dict[ir.Value, ir.Value[ir.TensorType]] = {}
    homes: dict[ir.Value, ir.Value] = {}
    wholes: dict[ir.Value, ir.Value[ir.TensorType]] = {}
    for pool, same in windows.items():
        for number, ((type, offset), views) in enumerate(same.items()):
            assert ir.is_storage(pool)
            whole = len(same) == 1 and is_whole(type, offset, pool.type) and pool not in slots.filled
            if whole or len(views) > 1:
                name = f"{pool.name}.{number}"
                while name in names:
                    name += "_"
                window = ir.Value(pool.name if whole else name, type)
                values.update(dict.fromkeys(views, window))
                homes[window] = pool
                if whole:
                    wholes[pool] = window
    return SharedWindows(values, homes, wholes)

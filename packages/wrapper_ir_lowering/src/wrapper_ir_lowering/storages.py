"""Storages as targets see them that have tensors and no storages: which tensor stands for one, and where slots lie in it."""

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
    """Whether a storage asks for memory of a process group on a device that has none."""
    return storage.is_group_memory and storage.device.type == ir.CPU.type


def is_whole(type: ir.TensorType, offset: Expr, storage: ir.StorageType) -> bool:
    """Whether a view is all of a storage, so that one tensor can stand for both."""
    return offset == Int(0) and type.device == storage.device and ir.extent_bytes(type) == storage.nbytes


def made_elsewhere(function: ir.Function) -> frozenset[ir.Value]:
    """Storages whose first use is not in the scopes that they are made in: their memory is of the pools around the op that
    makes them."""
    if not any(isinstance(op, ir.EnterMemoryPool) for op in function.body):
        return frozenset()
    scopes, homes, found = list[int](), dict[ir.Value, tuple[int, ...]](), set[ir.Value]()
    for position, op in enumerate(function.body):
        if isinstance(op, ir.EnterMemoryPool | ir.EnterProfile):
            scopes.append(position)
        elif isinstance(op, ir.ExitScope):
            scopes.pop()
        elif isinstance(op, ir.AllocStorage):
            homes[op.result] = tuple(scopes)
        else:
            here = tuple(scopes)
            found.update(v for v in ir.operands(op) if homes.pop(v, here) != here)
    return frozenset(found)


def element_type(
    storage: ir.StorageType, views: Iterable[tuple[ir.View, Expr]], filled: Iterable[tuple[Expr, Expr]] = ()
) -> ir.DType:
    """The element type for a flat tensor in the place of a storage: that of most of its views, as windows of the same element
    type cost least, where it divides the storage's bytes, their offsets (with the views, from the storage's start), and begin
    and size of each slot that is `filled`; else bytes."""
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
    """The ops that use each storage that the function makes, slots too, in order."""
    found: dict[ir.Value, list[ir.Op]] = {op.result: [] for op in function.ops_of(ir.AllocStorage, ir.Slot)}
    for op in function.body:
        for value in ir.operands(op):
            if value in found:
                found[value].append(op)
    return found


@dataclass(frozen=True, slots=True)
class SlotPlaces:
    """For one function. `places` has, for each slot, the allocation or parameter that it lies in and the byte that it
    starts at; `views` the views of each allocation or parameter, those of its slots too, with the byte that each starts
    at; `lent` the storages that something takes as a whole (to fill it with zeros, too), `lending` the allocations and parameters that these lie in."""

    places: Mapping[ir.Value, tuple[ir.Value, Expr]] = field(default_factory=dict)
    views: Mapping[ir.Value, Sequence[tuple[ir.View, Expr]]] = field(default_factory=dict)
    lent: frozenset[ir.Value] = frozenset()
    lending: frozenset[ir.Value] = frozenset()
    filled: Mapping[ir.Value, Sequence[tuple[Expr, Expr]]] = field(default_factory=dict)

    def place(self, storage: ir.Value, offset: Expr) -> tuple[ir.Value, Expr]:
        """The outermost storage, and the byte in it that is at `offset` of `storage`."""
        found = self.places.get(storage)
        return (storage, offset) if found is None else (found[0], found[1] + offset)


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
    """`values` has, for views of the slots of a pool that are the same tensor one after the other, the value that stands for
    all of them until the pool ends; `pools` the pool of each of these, and `whole` the one that is all of a pool.
    """

    values: Mapping[ir.Value, ir.Value[ir.TensorType]] = field(default_factory=dict)
    pools: Mapping[ir.Value, ir.Value] = field(default_factory=dict)
    whole: Mapping[ir.Value, ir.Value[ir.TensorType]] = field(default_factory=dict)


def share_windows(function: ir.Function, slots: SlotPlaces) -> SharedWindows:
    """The windows of a function's pools that are made once.

    Only of pools that the function frees, so that no caller holds the tensor, and where nothing gives a tensor other memory.
    """
    if any(isinstance(op, ir.ResizeStorage | ir.SetStorage) for op in function.body):
        return SharedWindows()
    pools = {base for base, _ in slots.places.values()} - slots.lending
    pools &= {op.storage for op in function.ops_of(ir.Free)}
    windows: dict[ir.Value, dict[tuple[ir.TensorType, Expr], list[ir.Value]]] = {}
    places: dict[ir.Value, tuple[ir.Value, Expr]] = {}
    for op in function.body if pools else ():
        if isinstance(op, ir.View):
            source, at = slots.place(op.source, op.offset)
            pool, start = places.get(source, (source, Int(0)))
            if pool in pools:
                places[op.result] = pool, start + at
                windows.setdefault(pool, {}).setdefault((op.result.type, start + at), []).append(op.result)
    taken = {v.name for v in ir.definitions(function)} if windows else set()
    found: dict[ir.Value, ir.Value[ir.TensorType]] = {}
    homes: dict[ir.Value, ir.Value] = {}
    wholes: dict[ir.Value, ir.Value[ir.TensorType]] = {}
    for pool, same in windows.items():
        for number, ((type, offset), views) in enumerate(same.items()):
            assert ir.is_storage(pool)
            whole = len(same) == 1 and is_whole(type, offset, pool.type) and pool not in slots.filled
            if whole or len(views) > 1:
                name = f"{pool.name}.{number}"
                while name in taken:
                    name += "_"
                window = ir.Value(pool.name if whole else name, type)
                found.update(dict.fromkeys(views, window))
                homes[window] = pool
                if whole:
                    wholes[pool] = window
    return SharedWindows(found, homes, wholes)

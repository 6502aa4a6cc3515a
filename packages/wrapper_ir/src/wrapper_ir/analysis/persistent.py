"""Which memory an emitter may keep from call to call, and which storages share it.

A storage may persist where no caller can come to hold it: the program itself frees it. Storages that are not alive at the
same time share memory, which is right as long as all work goes to one stream, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wrapper_ir.expr import Int
from wrapper_ir.ops import (
    AllocStorage,
    EnterMemoryPool,
    Free,
    Op,
    ResizeStorage,
    SetStorage,
    Slot,
    View,
    ZeroMode,
)
from wrapper_ir.program import Function
from wrapper_ir.structure import operands
from wrapper_ir.types import Device, MemoryKind, StorageType
from wrapper_ir.values import Value

__all__ = ["PersistentBlock", "PersistentMemory", "plan_persistent", "storage_users"]

_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class PersistentBlock:
    """Bytes that storages share one after the other; those that are zero at first belong to one storage alone."""

    nbytes: int
    zero: bool


@dataclass(slots=True)
class PersistentMemory:
    """The blocks, and the number of the block that each persistent storage lies at the begin of."""

    blocks: list[PersistentBlock] = field(default_factory=list)
    places: dict[Value, int] = field(default_factory=dict)


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


def plan_persistent(
    function: Function, device: Device, users: Mapping[Value, Sequence[Op]]
) -> PersistentMemory:
    """What a function may keep on the program's device. Nothing where work goes to several streams, moves memory under
    tensors, or takes it from pools of the caller's."""
    plan, spare = PersistentMemory(), list[int]()
    # stream: of ops that have one
    if any(
        isinstance(op, ResizeStorage | SetStorage | EnterMemoryPool) or getattr(op, "stream", 0)
        for op in function.body
    ):
        return plan
    storages = set(_candidates(function, device, users))
    for op in function.body:
        if isinstance(op, AllocStorage) and op.result in storages:
            plan.places[op.result] = _block_for(op, spare, plan)
        elif isinstance(op, Free) and op.storage in storages:
            block = plan.places[op.storage]
            if not plan.blocks[block].zero:
                spare.append(block)
    return plan


def _candidates(function: Function, device: Device, users: Mapping[Value, Sequence[Op]]) -> Iterator[Value]:
    """Storages of a known size on the program's device that are viewed and freed, and nothing else."""
    freed = {op.storage for op in function.body if isinstance(op, Free)}
    slots = {op.result for op in function.body if isinstance(op, Slot)}
    for storage in users:
        type = storage.type
        if (
            isinstance(type, StorageType)
            and isinstance(type.nbytes, Int)
            and type.device == device
            and device.type in _DEVICES
            and type.space.kind is MemoryKind.DEFAULT
            and storage in freed
            and storage not in slots
            and _is_only_viewed(storage, users)
        ):
            yield storage


def _is_only_viewed(storage: Value, users: Mapping[Value, Sequence[Op]]) -> bool:
    """Whether nothing takes a storage, or a slot of it, as a whole."""
    return all(
        isinstance(op, View | Free) or (isinstance(op, Slot) and _is_only_viewed(op.result, users))
        for op in users[storage]
    )


def _block_for(op: AllocStorage, spare: list[int], plan: PersistentMemory) -> int:
    """The smallest free block that is large enough, or a new one."""
    assert isinstance(op.result.type.nbytes, Int)
    nbytes = op.result.type.nbytes.value
    zero = op.zero is ZeroMode.ONCE
    fitting = [] if zero else [i for i in spare if plan.blocks[i].nbytes >= nbytes]
    if fitting:
        block = min(fitting, key=lambda i: (plan.blocks[i].nbytes, i))
        spare.remove(block)
        return block
    plan.blocks.append(PersistentBlock(nbytes, zero))
    return len(plan.blocks) - 1

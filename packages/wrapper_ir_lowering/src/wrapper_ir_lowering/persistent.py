"""Memory of a function that may persist from call to call, and the tensors in it.

A storage may persist if the program itself frees it, so that no caller can hold it. An emitter first packs
storages with disjoint lifetimes into pools
(`wrapper_ir_passes.memory.persistent_pools.with_persistent_pools`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wrapper_ir import ir
from wrapper_ir.analysis.persistence import may_persist
from wrapper_ir.expr import Expr, Int
from wrapper_ir_lowering.storages import plan_slots


@dataclass(frozen=True, slots=True)
class PersistentBlock:
    """The bytes of a storage; `zero` says whether they are zero at first."""

    nbytes: int
    zero: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentWindow:
    """A tensor over a block, `offset` bytes from its start. `name` is that of the first value that it
    represents.
    """

    block: int
    type: ir.TensorType
    offset: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentMemory:
    """The persistent memory of `main`: blocks, tensors over them, and the values that these represent (by
    number).

    One set of blocks serves one call at a time. `storages` lists the storages that start at a block's first
    byte. Unless `is_held`, only the tensors persist, and each call allocates the blocks.
    """

    blocks: tuple[PersistentBlock, ...] = ()
    windows: tuple[PersistentWindow, ...] = ()
    values: Mapping[ir.Value[ir.Type], int] = field(default_factory=dict)
    storages: Mapping[ir.Value[ir.Type], int] = field(default_factory=dict)
    is_held: bool = True


def plan_windows(function: ir.Function, device: ir.Device) -> PersistentMemory:
    """The tensors over memory of fixed sizes, for a function with pools on a CPU.

    There, creating a tensor costs more than an allocation, and growing an empty storage costs less than a new
    one.
    """
    pools = any(op.purpose is ir.AllocPurpose.POOL for op in function.ops_of(ir.AllocStorage))
    if not pools or device != ir.CPU:
        return PersistentMemory()
    windows_of = plan_persistent(function, device, is_held=False)
    return windows_of if windows_of.windows else PersistentMemory()


def plan_persistent(function: ir.Function, device: ir.Device, *, is_held: bool = True) -> PersistentMemory:
    """The blocks of a function that may persist on the program's device, and the tensors that are known
    before any call.

    A storage becomes a tensor of bytes if it has other users than views, or is filled with zeros in each
    call.
    """
    slots, tensors = plan_slots(function), _Windows()
    blocks, storages = _plan_blocks(function, device, is_held)
    fixed = {slot for slot, (_, at) in slots.places.items() if slot in slots.lent and _is_fixed(slot, at)}
    places: dict[ir.Value[ir.Type], tuple[int, int]] = {}  # block and offset
    for op in function.body:
        match op:
            case ir.AllocStorage(result=storage) if storage in storages:
                places[storage] = block, _ = storages[storage], 0
                views = slots.views.get(storage, ())
                is_used = op.zero is ir.ZeroMode.CALL or storage in slots.lent
                is_used |= any(
                    slots.places[s][0] is storage for s in slots.lent & slots.places.keys() - fixed
                )
                if is_used or not all(_is_static(view, at) for view, at in views):
                    tensors.add(storage, _bytes_of(storage.type), block, 0)
            case ir.Slot(result=slot) if slot in fixed and slots.places[slot][0] in places:
                base, at = slots.places[slot]
                assert at.integer is not None  # since the slot is fixed
                tensors.add(slot, _bytes_of(slot.type), places[base][0], at.integer)
            case ir.View(result=result):
                source, at = slots.place(op.source, op.offset)
                if source in places and at.integer is not None and _is_static(op, at):
                    block, start = places[source]
                    places[result] = (block, start + at.integer)
                    tensors.add(result, result.type, block, start + at.integer)
            case _:
                pass
    windows = tuple(tensors.windows)
    return PersistentMemory(
        blocks=blocks, windows=windows, values=tensors.values, storages=storages, is_held=is_held
    )


class _Windows:
    """Windows over blocks, each once, and the values that they represent."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, ir.TensorType, int], int] = {}
        self.windows: list[PersistentWindow] = []
        self.values: dict[ir.Value[ir.Type], int] = {}

    def add(self, value: ir.Value[ir.Type], type: ir.TensorType, block: int, offset: int) -> None:
        key = (block, type, offset)
        if key not in self.numbers:
            self.numbers[key] = len(self.windows)
            self.windows.append(PersistentWindow(block=block, type=type, offset=offset, name=value.name))
        self.values[value] = self.numbers[key]


def _is_static(view: ir.View, at: Expr) -> bool:
    """Returns whether a view at this byte offset is known before any call."""
    type = view.result.type
    return all(e.integer is not None for e in (*type.sizes, *type.strides, at))


def _is_fixed(slot: ir.Value[ir.Type], at: Expr) -> bool:
    return ir.is_storage(slot) and slot.type.nbytes.integer is not None and at.integer is not None


def _bytes_of(type: ir.StorageType) -> ir.TensorType:
    return ir.TensorType(ir.DType.U8, (type.nbytes,), (Int(1),), type.device)


def _plan_blocks(
    function: ir.Function, device: ir.Device, is_held: bool
) -> tuple[tuple[PersistentBlock, ...], dict[ir.Value[ir.Type], int]]:
    """Blocks, and the block number of each persistent storage.

    None if work is queued on several streams, moves memory under tensors, or takes memory from pools of the
    caller.
    """
    blocks, places = list[PersistentBlock](), dict[ir.Value[ir.Type], int]()
    if not may_persist(function):
        return (), places
    freed = {op.storage for op in function.ops_of(ir.Free)}
    for op in function.ops_of(ir.AllocStorage):
        if op.zero is ir.ZeroMode.ONCE and not is_held:
            continue
        nbytes = op.result.type.nbytes.integer
        if op.result in freed and nbytes is not None and _is_plain(op.result.type, device):
            places[op.result] = len(blocks)
            blocks.append(PersistentBlock(nbytes, op.zero is ir.ZeroMode.ONCE))
    return tuple(blocks), places


def _is_plain(type: ir.StorageType, device: ir.Device) -> bool:
    """Returns whether a storage is in the default memory of the program's device."""
    return (
        type.device == device and device.traits.persists_memory and type.space.kind is ir.MemoryKind.DEFAULT
    )

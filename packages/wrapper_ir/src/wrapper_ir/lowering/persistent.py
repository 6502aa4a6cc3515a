"""Which tensors lie in memory that persists from call to call: `wrapper_ir.analysis.persistent` says which storages may."""

from __future__ import annotations

from wrapper_ir.analysis.persistent import plan_persistent
from wrapper_ir.expr import Expr, Int
from wrapper_ir.lowering.plan import PersistentMemory, PersistentWindow
from wrapper_ir.lowering.state import FunctionState
from wrapper_ir.ops import AllocStorage, View, ZeroMode
from wrapper_ir.types import DType, StorageType, TensorType, Type
from wrapper_ir.values import Value

__all__ = ["plan_windows"]


class _Windows:
    """Windows over blocks, each once, and the values that they stand for."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, TensorType, int], int] = {}
        self.windows: list[PersistentWindow] = []
        self.values: dict[Value[Type], int] = {}

    def add(self, value: Value[Type], type: TensorType, block: int, offset: int) -> None:
        key = (block, type, offset)
        if key not in self.numbers:
            self.numbers[key] = len(self.windows)
            self.windows.append(PersistentWindow(block=block, type=type, offset=offset, name=value.name))
        self.values[value] = self.numbers[key]


def plan_windows(state: FunctionState) -> PersistentMemory:
    """The blocks of a function, and the tensors over them that are known before any call. A storage is a tensor of bytes
    where something else is made of it, or where it is filled with zeros in each call."""
    memory = plan_persistent(state.function, state.program.program.target.device, state.users)
    found = _Windows()
    places: dict[Value[Type], tuple[int, int]] = {}  # block and offset
    for op in state.function.body:
        match op:
            case AllocStorage(result=storage) if storage in memory.places:
                places[storage] = block, _ = memory.places[storage], 0
                views = state.slots.views.get(storage, ())
                if op.zero is ZeroMode.CALL or not all(_is_static(view, at) for view, at in views):
                    found.add(storage, _bytes_of(storage.type), block, 0)
            case View(result=result):
                source, at = state.slots.place(op.source, op.offset)
                if source in places and isinstance(at, Int) and _is_static(op, at):
                    block, start = places[source]
                    places[result] = (block, start + at.value)
                    found.add(result, result.type, block, start + at.value)
            case _:
                pass
    return PersistentMemory(
        blocks=tuple(memory.blocks),
        windows=tuple(found.windows),
        values=found.values,
        storages=frozenset(memory.places),
    )


def _is_static(view: View, at: Expr) -> bool:
    """Whether a view at this byte is known before any call."""
    type = view.result.type
    return all(isinstance(e, Int) for e in (*type.sizes, *type.strides, at))


def _bytes_of(type: StorageType) -> TensorType:
    return TensorType(DType.U8, (type.nbytes,), (Int(1),), type.device)

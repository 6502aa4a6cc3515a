"""Captures the live values before an op as ops that rebuild them from constants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wrapper_ir.artifact import TensorData
from wrapper_ir.errors import DebugError
from wrapper_ir.expr import Int
from wrapper_ir.ir import ops
from wrapper_ir.ir.layout import contiguous_strides
from wrapper_ir.ir.ops import Op
from wrapper_ir.ir.program import Constant
from wrapper_ir.ir.types import DType, ScalarType, StorageType, TensorType
from wrapper_ir.ir.values import Value, as_tensor, device_of, is_storage
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir_runtime.interp import Step

# Any in this file: the machine's tensors


class Snapshot:
    """The storages of some values, each as a constant of bytes.

    `ops` allocate and fill them and define the values; `numbers` are scalar values. Storages of program
    constants are unchanged.
    """

    def __init__(
        self, step: Step[Any], inputs: Iterable[Value], machine: Machine[Any], names: set[str]
    ) -> None:
        self.ops: list[Op] = []
        self.constants: list[Constant] = []
        self.data: dict[str, TensorData] = {}
        self.numbers: dict[Value, bool | int | float] = {}
        self._frame = step.frame
        self._machine = machine
        self._names = names
        self._storages: dict[Value | int, Value[StorageType]] = {}
        self._program_constants: dict[int, Value[TensorType]] = {
            machine.storage_key(x): as_tensor(v)
            for v, x in step.frame.session.constants.items()
            if machine.is_tensor(x)
        }
        wanted_values = list(dict.fromkeys(inputs))
        storages = [v for v in wanted_values if is_storage(v)]
        hosts = set(self._frame.info.aliasing.hosts.values())
        for storage in sorted(storages, key=lambda v: v not in hosts):  # pools before their slots
            self._storage_value(storage, is_pool=storage in hosts)
        for value in wanted_values:
            if not isinstance(value.type, StorageType):
                self._other_value(value)

    # --- storages

    def _storage_value(self, value: Value[StorageType], *, is_pool: bool) -> None:
        """Rebuilds a storage under its own name."""
        data = self._frame.value(value)
        host = self._frame.info.aliasing.hosts.get(value)
        pool = self._storages.get(host) if host is not None else None
        if pool is not None and host is not None:
            offset = Int(self._machine.offset(data) - self._machine.offset(self._frame.value(host)))
            self.ops.append(ops.Slot(pool=pool, result=value, offset=offset))
        else:
            purpose = ops.AllocPurpose.POOL if is_pool else ops.AllocPurpose.PLAIN
            self.ops.append(ops.AllocStorage(result=value, purpose=purpose))
        key = value if host is not None else self._machine.storage_key(data)
        self._storages[key] = value
        self._storages[value] = value
        if not is_pool:
            self._fill(value, data)

    def _fill(self, storage: Value[StorageType], held: Any) -> None:
        """Fills a storage from a constant with its current bytes."""
        count = self._machine.sizes(held)[0]
        if count == 0:
            return
        bytes_of = TensorType(DType.U8, (Int(count),), contiguous_strides((Int(count),)), storage.type.device)
        data = self._machine.data(held)
        constant = Value(self._fresh(f"{storage.name}.content"), bytes_of)
        view = Value(self._fresh(f"{storage.name}.bytes"), bytes_of)
        self.constants.append(Constant(value=constant, data_hash=data.sha256()))
        self.data[constant.name] = data
        self.ops.append(ops.View(source=storage, result=view))
        self.ops.append(ops.Copy(dst=view, src=constant))

    def _fresh(self, wish: str) -> str:
        name, number = wish, 0
        while name in self._names:
            number += 1
            name = f"{wish}_{number}"
        self._names.add(name)
        return name

    # --- tensors and numbers

    def _other_value(self, value: Value) -> None:
        data = self._frame.value(value)
        if isinstance(value.type, ScalarType):
            self.numbers[value] = data
        elif isinstance(value.type, TensorType):
            self._tensor(value, value.type, data)
        else:
            raise DebugError(
                "WIR961",
                f"%{value.name}, which the ops use, is {value.type}: a file cannot hold it",
                hint="begin before the op that makes it",
            )

    def _tensor(self, value: Value, type: TensorType, data: Any) -> None:
        """Rebuilds a view of the tensor's storage."""
        machine = self._machine
        key = machine.storage_key(data)
        result = Value(value.name, type)
        start = machine.offset(data) * type.dtype.itemsize
        constant = self._program_constants.get(key)
        if constant is not None:
            whole = self._frame.session.constants[constant]
            offset = start - machine.offset(whole) * constant.type.dtype.itemsize
            self.ops.append(ops.View(source=constant, result=result, offset=Int(offset)))
            return
        slot = next((r for r in self._frame.roots_of(value) if r in self._frame.slots), None)
        if slot is not None:
            start -= machine.offset(self._frame.slots[slot])
        storage = self._storages.get(key if slot is None else slot)
        if storage is None:
            storage = self._made_storage(value, type, data, slot)
        self.ops.append(ops.View(source=storage, result=result, offset=Int(start)))

    def _made_storage(
        self, value: Value, type: TensorType, data: Any, slot: Value | None
    ) -> Value[StorageType]:
        """Allocates a storage for a tensor whose storage has no name."""
        whole = self._machine.storage_of(data) if slot is None else self._frame.slots[slot]
        device = device_of(value) or type.device
        storage = Value(
            self._fresh(f"{value.name}.s"), StorageType(Int(self._machine.sizes(whole)[0]), device)
        )
        self.ops.append(ops.AllocStorage(result=storage))
        self._storages[self._machine.storage_key(data) if slot is None else slot] = storage
        self._fill(storage, whole)
        return storage

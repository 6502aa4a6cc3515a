"""Captures the live values before an op as ops that rebuild them from constants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wrapper_ir import ir
from wrapper_ir.artifact import TensorData
from wrapper_ir.errors import DebugError
from wrapper_ir.expr import Int
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir_runtime.interp import Step

# Any in this file: the machine's tensors


class Snapshot:
    """The storages of some values, each as a constant of bytes.

    `ops` allocate and fill them and define the values; `numbers` are scalar values. Storages of program
    constants are unchanged.
    """

    def __init__(
        self, step: Step[Any], inputs: Iterable[ir.Value], machine: Machine[Any], names: set[str]
    ) -> None:
        self.ops: list[ir.Op] = []
        self.constants: list[ir.Constant] = []
        self.data: dict[str, TensorData] = {}
        self.numbers: dict[ir.Value, bool | int | float] = {}
        self._frame = step.frame
        self._machine = machine
        self._names = names
        self._storages: dict[ir.Value | int, ir.Value[ir.StorageType]] = {}
        self._program_constants: dict[int, ir.Value[ir.TensorType]] = {
            machine.storage_key(x): ir.as_tensor(v)
            for v, x in step.frame.session.constants.items()
            if machine.is_tensor(x)
        }
        wanted_values = list(dict.fromkeys(inputs))
        storages = [v for v in wanted_values if ir.is_storage(v)]
        hosts = set(self._frame.info.aliasing.hosts.values())
        for storage in sorted(storages, key=lambda v: v not in hosts):  # pools before their slots
            self._storage_value(storage, is_pool=storage in hosts)
        for value in wanted_values:
            if not ir.is_storage(value):
                self._other_value(value)

    # --- storages

    def _storage_value(self, value: ir.Value[ir.StorageType], *, is_pool: bool) -> None:
        """Rebuilds a storage under its own name."""
        data = self._frame.value(value)
        host = self._frame.info.aliasing.hosts.get(value)
        pool = self._storages.get(host) if host is not None else None
        if pool is not None and host is not None:
            offset = Int(self._machine.offset(data) - self._machine.offset(self._frame.value(host)))
            self.ops.append(ir.Slot(pool=pool, result=value, offset=offset))
        else:
            purpose = ir.AllocPurpose.POOL if is_pool else ir.AllocPurpose.PLAIN
            self.ops.append(ir.AllocStorage(result=value, purpose=purpose))
        key = value if host is not None else self._machine.storage_key(data)
        self._storages[key] = value
        self._storages[value] = value
        if not is_pool:
            self._fill(value, data)

    def _fill(self, storage: ir.Value[ir.StorageType], flat: object) -> None:
        """Fills a storage from a constant with its current bytes."""
        count = self._machine.sizes(flat)[0]
        if count == 0:
            return
        bytes_of = ir.TensorType(
            ir.DType.U8, (Int(count),), ir.contiguous_strides((Int(count),)), storage.type.device
        )
        data = self._machine.data(flat)
        constant = ir.Value(self._fresh(f"{storage.name}.content"), bytes_of)
        view = ir.Value(self._fresh(f"{storage.name}.bytes"), bytes_of)
        self.constants.append(ir.Constant(value=constant, data_hash=data.sha256()))
        self.data[constant.name] = data
        self.ops.append(ir.View(source=storage, result=view))
        self.ops.append(ir.Copy(dst=view, src=constant))

    def _fresh(self, wish: str) -> str:
        name, number = wish, 0
        while name in self._names:
            number += 1
            name = f"{wish}_{number}"
        self._names.add(name)
        return name

    # --- tensors and numbers

    def _other_value(self, value: ir.Value) -> None:
        data = self._frame.value(value)
        if ir.is_scalar(value):
            self.numbers[value] = data
        elif ir.is_tensor(value):
            self._tensor(value, value.type, data)
        else:
            raise DebugError(
                "WIR961",
                f"%{value.name}, which the ops use, is {value.type}: a file cannot hold it",
                hint="begin before the op that makes it",
            )

    def _tensor(self, value: ir.Value, type: ir.TensorType, data: object) -> None:
        """Rebuilds a view of the tensor's storage."""
        machine = self._machine
        key = machine.storage_key(data)
        result = ir.Value(value.name, type)
        start = machine.offset(data) * type.dtype.itemsize
        constant = self._program_constants.get(key)
        if constant is not None:
            whole = self._frame.session.constants[constant]
            offset = start - machine.offset(whole) * constant.type.dtype.itemsize
            self.ops.append(ir.View(source=constant, result=result, offset=Int(offset)))
            return
        slot = next((r for r in self._frame.roots_of(value) if r in self._frame.slots), None)
        if slot is not None:
            start -= machine.offset(self._frame.slots[slot])
        storage = self._storages.get(key if slot is None else slot)
        if storage is None:
            storage = self._made_storage(value, type, data, slot)
        self.ops.append(ir.View(source=storage, result=result, offset=Int(start)))

    def _made_storage(
        self, value: ir.Value, type: ir.TensorType, data: object, slot: ir.Value | None
    ) -> ir.Value[ir.StorageType]:
        """Allocates a storage for a tensor whose storage has no name."""
        whole = self._machine.storage_of(data) if slot is None else self._frame.slots[slot]
        device = ir.device_of(value) or type.device
        storage = ir.Value(
            self._fresh(f"{value.name}.s"), ir.StorageType(Int(self._machine.sizes(whole)[0]), device)
        )
        self.ops.append(ir.AllocStorage(result=storage))
        self._storages[self._machine.storage_key(data) if slot is None else slot] = storage
        self._fill(storage, whole)
        return storage

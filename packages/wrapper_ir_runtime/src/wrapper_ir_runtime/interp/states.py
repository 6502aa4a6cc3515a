"""Snapshots of a run between two ops of `main`, from which the rest can run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir.expr import Int, Number
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir_runtime.interp.frame import Content, Frame, Session

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState(Generic[T]):
    """State of `main` before the op at `position`.

    Its tensors are copies that no run writes. A run that starts here copies them again.
    """

    position: int
    values: Mapping[ir.Value, Content]
    symbols: Mapping[str, Number]
    constants: Mapping[ir.Value, T]
    """Content of mutable constants."""
    roots: tuple[ir.Value, ...]
    """The live roots. Each has a value in `values`."""
    slots: Mapping[ir.Value, T]
    scopes: tuple[ir.EnterProfile | ir.EnterMemoryPool, ...]
    nbytes: int
    """Size of all copies in bytes."""


class StorageCopies(Generic[T]):
    """Copies tensors. Tensors of one storage share one copy; those of `shared` storages are not copied."""

    def __init__(self, machine: Machine[T], shared: frozenset[int] = frozenset()) -> None:
        self._machine = machine
        self._shared = shared
        self._copies: dict[int, T] = {}
        self.nbytes = 0

    def tensor(self, tensor: T, dtype: ir.DType) -> T:
        """Returns the tensor over the copy of its storage, with the same layout and offset."""
        machine = self._machine
        key = machine.storage_key(tensor)
        if key in self._shared:
            return tensor
        if key not in self._copies:
            storage = machine.storage_of(tensor)
            self._copies[key] = machine.clone(storage)
            self.nbytes += machine.sizes(storage)[0]
        sizes, strides = machine.sizes(tensor), machine.strides(tensor)
        type = ir.TensorType(dtype, tuple(map(Int, sizes)), tuple(map(Int, strides)), ir.CPU)
        offset = machine.offset(tensor) * dtype.itemsize
        return machine.view(self._copies[key], type, sizes, strides, offset)

    def value(self, value: ir.Value, content: Content) -> Content:
        """Returns a copy of a value's content; numbers and handles are returned as they are."""
        if ir.is_results(value):
            raise ExecutionError("WIR951", f"%{value.name} is a nested result, which no kept state can hold")
        if not self._machine.is_tensor(content):
            return content
        dtype = value.type.dtype if ir.is_tensor(value) else ir.DType.U8
        return self.tensor(content, dtype)


def keep_state(frame: Frame[T], position: int) -> KeptState[T]:
    """Returns the state before the op at `position` of `main`, with copies of all storages that a run may
    write.

    Raises ExecutionError WIR951 inside calls, and if a nested result of an operator is live.
    """
    if frame.depth:
        raise ExecutionError(
            "WIR951", f"@{frame.info.function.name} is inside a call: states are kept of main"
        )
    session = frame.session
    mutable = {c.value for c in session.artifact.program.constants if c.mutable}
    copies = StorageCopies(frame.machine, _immutable_keys(session, mutable))
    constants = {v: copies.value(v, session.constants[v]) for v in mutable}
    values = {v: copies.value(v, entry) for v, entry in frame.values.items()}
    return KeptState(
        position=position,
        values=values,
        symbols=dict(frame.symbols),
        constants=constants,
        roots=tuple(frame.roots),
        slots={v: copies.tensor(s, ir.DType.U8) for v, s in frame.slots.items()},
        scopes=tuple(frame.scopes),
        nbytes=copies.nbytes,
    )


def _immutable_keys(session: Session[T], mutable: set[ir.Value]) -> frozenset[int]:
    """Returns the storages of constants that no run writes."""
    machine = session.machine
    tensors = ((v, x) for v, x in session.constants.items() if machine.is_tensor(x))
    keys = {v: machine.storage_key(x) for v, x in tensors}
    mutable_keys = {keys[v] for v in mutable if v in keys}
    return frozenset(keys.values()) - mutable_keys


def restore_frame(session: Session[T], state: KeptState[T]) -> Frame[T]:
    """Returns a new activation of `main` in a kept state; resets mutable constants to their content."""
    machine = session.machine
    frame = Frame(session, session.info(session.artifact.program.main.name), 0)
    shared = _immutable_keys(session, set(state.constants))
    # Values over mutable constants must be in the storages of the constants.
    copies = _Restored(machine, shared)
    for value, content in state.constants.items():
        machine.copy(session.constants[value], content, False)
        copies.adopt(content, session.constants[value])
    for value, entry in state.values.items():
        frame.bind(value, copies.value(value, entry))
    frame.symbols.update(state.symbols)
    for root in state.roots:
        frame.roots[root] = machine.storage_key(frame.values[root])
    frame.slots.update({v: copies.tensor(s, ir.DType.U8) for v, s in state.slots.items()})
    frame.scopes.extend(state.scopes)
    return frame


class _Restored(StorageCopies[T]):
    def adopt(self, content: T, constant: T) -> None:
        """Maps tensors over the storage of `content` to that of a constant."""
        key = self._machine.storage_key(content)
        self._copies.setdefault(key, self._machine.storage_of(constant))

"""Constants: weights, buffers and literal tensors, declared at their first use. Shared memory is stored
once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import torch

from inductor_frontend.constants import ConstantRole, is_packed, on_host, tensor_data
from inductor_frontend.convert import to_device, to_dtype
from inductor_frontend.errors import ConversionError
from inductor_frontend.record.graph import RecordingGraph
from inductor_frontend.scope.shared_bytes import overlapping
from wrapper_ir import ir
from wrapper_ir.builder import ProgramBuilder, tensor_type


def _memory(tensor: torch.Tensor) -> tuple[object, ...]:
    """Returns the key that all names of one tensor share."""
    bits = (tensor.is_conj(), tensor.is_neg())
    return (tensor.data_ptr(), tensor.dtype, tuple(tensor.size()), tuple(tensor.stride()), bits)


def literals(graph: RecordingGraph) -> dict[str, ConstantRole]:
    """Returns the tensors that are constants of the graph itself."""
    return {
        name: ConstantRole(name, tensor, name in graph.mutated_buffers)
        for name, tensor in graph.constants.items()
    }


class ConstantTable:
    """The constants of one program. `tensors` are those declared so far, on the CPU, by
    `Constant.data_name`."""

    def __init__(self, program: ProgramBuilder, roles: Mapping[str, ConstantRole]) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._program = program
        self._roles = dict(roles)
        self._values: dict[object, ir.Value] = {}
        self._declared: set[ir.Value] = set()
        self._declared_roles: dict[ir.Value, ConstantRole] = {}
        """The roles of plain constants, by value."""
        self._check_shared_state()

    def _check_shared_state(self) -> None:
        """Raises ConversionError FE306 for mutable buffers that share memory under two names.

        Two names of one memory are one constant. A write through one name would have to be visible through
        the other, which a functional graph cannot express.
        """
        owners: dict[int, ConstantRole] = {}
        for role in self._roles.values():
            if role.data.numel() == 0 or is_packed(role.data):
                continue
            other = owners.setdefault(role.data.untyped_storage().data_ptr(), role)
            if other is not role and (role.mutable or other.mutable):
                raise ConversionError(
                    "FE306", f"buffers {other.name} and {role.name} share memory, and the model writes to it"
                )

    def add(self, roles: Mapping[str, ConstantRole]) -> None:
        """Adds the constants of one more graph, whose names are unique in the program. Raises ConversionError
        FE306."""
        self._roles |= roles
        self._check_shared_state()

    def holds(self, name: str) -> bool:
        """Returns whether an Inductor name refers to a constant."""
        return name in self._roles

    def declared(self, value: ir.Value) -> bool:
        """Returns whether a value is a constant."""
        return value in self._declared

    def find(self, name: str) -> ir.Value | None:
        """Returns the constant of an Inductor name, declared at its first use; None if the name is not a
        constant's."""
        role = self._roles.get(name)
        if role is None:
            return None
        key = role.name if role.data.numel() == 0 or is_packed(role.data) else _memory(role.data)
        value = self._values.get(key)
        if value is None:
            value = self._declare(role)
            self._values[key] = value
            self._declared.add(value)
        return value

    def _declare(self, role: ConstantRole) -> ir.Value:
        tensor = role.data
        if is_packed(tensor):
            return self._declare_packed(role)
        type = tensor_type(
            to_dtype(tensor.dtype),
            tuple(tensor.size()),
            tuple(tensor.stride()),
            to_device(role.device or tensor.device),
        )
        self.tensors[role.name] = host = on_host(tensor)
        digest = hashlib.sha256(tensor_data(role.name, host).buffer).hexdigest()
        value = ir.Value(role.name, type)
        self._declared_roles[value] = role
        return self._program.constant(
            ir.Constant(value=value, data_hash=digest, mutable=role.mutable, kind=role.kind, names=role.names)
        )

    def _declare_packed(self, role: ConstantRole) -> ir.Value:
        detail = f"{to_dtype(role.data.dtype).value}[{', '.join(map(str, role.data.size()))}]"
        value = ir.Value(role.name, ir.OpaqueType(ir.OpaqueKind.PACKED, detail))
        self.tensors[role.name] = role.data
        return self._program.constant(ir.Constant(value=value, kind=role.kind, names=role.names))

    def finish(self, program: ir.Program) -> ir.Program:
        """Returns the program with one storage for constants whose bytes overlap, and merges their
        `tensors`."""
        placed: dict[ir.Value, tuple[str, int]] = {}
        for group in overlapping({v: r.data for v, r in self._declared_roles.items()}):
            first = group.tensors[0]
            name = f"shared.{first.name}"
            while name in self.tensors:
                name += "_"
            self.tensors[name] = on_host(group.flat)
            for value, offset in zip(group.tensors, group.offsets, strict=True):
                placed[value] = (name, offset)
                del self.tensors[value.name]
        if not placed:
            return program
        constants = tuple(
            replace(c, storage=placed[c.value][0], offset=placed[c.value][1]) if c.value in placed else c
            for c in program.constants
        )
        return replace(program, constants=constants)

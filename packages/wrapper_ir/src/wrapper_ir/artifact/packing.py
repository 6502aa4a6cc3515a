"""Bytes of packed constants: made from their original's, turned back, and updated by the original's names."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from itertools import chain

from wrapper_ir import ir
from wrapper_ir.artifact.model import Artifact, TensorData
from wrapper_ir.errors import ArtifactError
from wrapper_ir.expr import as_int


def pack(data: TensorData, packing: ir.Packing) -> TensorData:
    """Returns the bytes of a packed constant, made from those of its original.

    Raises ArtifactError WIR708 for another number of bytes.
    """
    elements, packed = _elements(data, packing.sizes), _zeros(data, packing.packed_sizes)
    for to, source in packing.panels.copies():
        packed[to] = elements[source]
    return TensorData(data.dtype, packed.cast("B").toreadonly())


def unpack(data: TensorData, packing: ir.Packing) -> TensorData:
    """Returns the bytes of the original of a packed constant. Raises ArtifactError WIR708 as `pack`."""
    elements, original = _elements(data, packing.packed_sizes), _zeros(data, packing.sizes)
    for source, to in packing.panels.copies():
        original[to] = elements[source]
    return TensorData(data.dtype, original.cast("B").toreadonly())


def _elements(data: TensorData, sizes: tuple[int, ...]) -> memoryview[int]:
    """Returns the elements of a tensor of these sizes."""
    want = math.prod(sizes) * data.dtype.itemsize
    if data.nbytes != want:
        raise ArtifactError("WIR708", f"a constant of {want} bytes has {data.nbytes}")
    return _as_integers(data.buffer.cast("B"), data.dtype)


def _zeros(data: TensorData, sizes: tuple[int, ...]) -> memoryview[int]:
    """Returns zeros of the element type of `data`."""
    return _as_integers(memoryview(bytearray(math.prod(sizes) * data.dtype.itemsize)), data.dtype)


def _as_integers(buffer: memoryview, dtype: ir.DType) -> memoryview[int]:
    """Returns elements as integers of as many bytes: their bits are copied."""
    match dtype.itemsize:
        case 1:
            return buffer
        case 2:
            return buffer.cast("H")
        case 4:
            return buffer.cast("I")
        case _:
            return buffer.cast("Q")


def original_type(constant: ir.Constant) -> ir.Type:
    """Returns the type by which callers know a constant: for a packed one, its original's."""
    value, packing = constant.value, constant.packing
    return packing.original_type(value.type) if packing is not None and ir.is_tensor(value) else value.type


def original_data(artifact: Artifact, constant: ir.Constant) -> TensorData | None:
    """Returns the bytes of a constant, for a packed one those of its original; None without data."""
    data = artifact.data_of(constant)
    return data if data is None or constant.packing is None else unpack(data, constant.packing)


def update_constants(artifact: Artifact, values: Mapping[str, TensorData]) -> Artifact:
    """Returns an artifact with new values of constants, by any of their names in the model.

    A value has the bytes of the constant's type; for a packed constant, those of its original. All constants
    of the name change. Of several names of one constant, the first counts. Raises ArtifactError WIR719 for
    unknown names, values of another type or size, and constants that share a storage.
    """
    unknown = {*values}
    data, constants = dict(artifact.constants), []
    for constant in artifact.program.constants:
        names = [name for name in names_of(constant) if name in values]
        unknown.difference_update(names)
        for name in names[:1]:
            content = _checked(values[name], constant, name)
            if constant.packing is not None:
                content = pack(content, constant.packing)
            data[constant.data_name] = content
            constant = dataclasses.replace(constant, data_hash=content.sha256())
        constants.append(constant)
    if unknown:
        raise ArtifactError("WIR719", f"the program has no constants {', '.join(sorted(unknown))}")
    program = dataclasses.replace(artifact.program, constants=tuple(constants))
    return dataclasses.replace(artifact, program=program, constants=data)


def names_of(constant: ir.Constant) -> tuple[str, ...]:
    """Returns the names by which a constant is updated: in the model, or that of its value or original."""
    if constant.names:
        return constant.names
    return (constant.packing.original if constant.packing is not None else constant.value.name,)


def model_names(program: ir.Program) -> tuple[str, ...]:
    """Returns the names of all constants, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(map(names_of, program.constants))))


def _checked(value: TensorData, constant: ir.Constant, name: str) -> TensorData:
    type = original_type(constant)
    if constant.storage or not isinstance(type, ir.TensorType):
        raise ArtifactError("WIR719", f"constant {name} shares its storage, or is not a tensor")
    want = as_int(ir.extent_bytes(type))
    if (value.dtype, value.nbytes) != (type.dtype, want):
        raise ArtifactError(
            "WIR719",
            f"constant {name} has {want} bytes of {type.dtype.value}, "
            f"not {value.nbytes} of {value.dtype.value}",
        )
    return value

"""Reads and writes single elements of a machine's tensors through views."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeVar

from wrapper_ir import ir
from wrapper_ir.artifact import TensorData
from wrapper_ir.errors import DebugError
from wrapper_ir.plugins.protocols import Machine

T = TypeVar("T")


def element(tensor: T, value: ir.Value, index: Sequence[int], machine: Machine[T]) -> T:
    """Returns a view of one element (zero dimensions), or of a slice if there are fewer indices than
    dimensions.

    Negative indices count from the end. Raises DebugError WIR956 for an index out of range.
    """
    sizes, strides = machine.sizes(tensor), machine.strides(tensor)
    if not ir.is_tensor(value) or len(index) > len(sizes):
        raise DebugError("WIR956", f"%{value.name} has {len(sizes)} dimensions, not {len(index)}")
    offset = 0
    for i, size, stride in zip(index, sizes, strides):
        if not -size <= i < size:
            raise DebugError(
                "WIR956", f"index {i} is out of range for a dimension of size {size} of %{value.name}"
            )
        offset += (i + size if i < 0 else i) * stride
    rest = len(index)
    type = value.type
    return machine.view(tensor, type, sizes[rest:], strides[rest:], offset * type.dtype.itemsize)


_CODES = {bool: (ir.DType.BOOL, "<?"), int: (ir.DType.I64, "<q"), float: (ir.DType.F64, "<d")}


def write(target: T, number: bool | int | float, machine: Machine[T]) -> None:
    """Sets all elements of a tensor to a number, converted to its element type."""
    dtype, code = _CODES[type(number)]
    data = TensorData(dtype, memoryview(struct.pack(code, number)))
    scalar = machine.constant(data, ir.TensorType(dtype, (), ()), False, 1)
    machine.copy(target, scalar, False)

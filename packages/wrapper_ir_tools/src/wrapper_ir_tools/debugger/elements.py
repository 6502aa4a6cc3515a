"""Reads and writes single elements of a machine's tensors through views."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from wrapper_ir import ir
from wrapper_ir.artifact import TensorData
from wrapper_ir.errors import DebugError
from wrapper_ir.plugins.protocols import Machine

# Any in this file: the machine's tensors


def element(tensor: Any, value: ir.Value, index: Sequence[int], machine: Machine[Any]) -> Any:
    """Returns a view of one element (zero dimensions), or of a slice if there are fewer indices than
    dimensions.

    Negative indices count from the end. Raises DebugError WIR956 for an index out of range.
    """
    type = value.type
    sizes, strides = machine.sizes(tensor), machine.strides(tensor)
    if not isinstance(type, ir.TensorType) or len(index) > len(sizes):
        raise DebugError("WIR956", f"%{value.name} has {len(sizes)} dimensions, not {len(index)}")
    offset = 0
    for i, size, stride in zip(index, sizes, strides):
        if not -size <= i < size:
            raise DebugError(
                "WIR956", f"index {i} is out of range for a dimension of size {size} of %{value.name}"
            )
        offset += (i + size if i < 0 else i) * stride
    rest = len(index)
    return machine.view(tensor, type, sizes[rest:], strides[rest:], offset * type.dtype.itemsize)


_CODES = {ir.DType.BOOL: "?", ir.DType.F64: "d", ir.DType.F32: "f", ir.DType.I64: "q"}


def write(target: Any, number: bool | int | float, machine: Machine[Any]) -> None:
    """Sets all elements of a tensor to a number, converted to its element type."""
    dtype = (
        ir.DType.BOOL
        if isinstance(number, bool)
        else ir.DType.I64
        if isinstance(number, int)
        else ir.DType.F64
    )
    data = TensorData(dtype, memoryview(struct.pack(f"<{_CODES[dtype]}", number)))
    scalar = machine.constant(data, ir.TensorType(dtype, (), ()), False, 1)
    machine.copy(target, scalar, False)

"""Operands of calls that are constants, or views of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.expr import Int

_CONVERSION = "aten::_to_copy"


class ConstantViews:
    """The values of one function that are constants, or views from the first byte of one."""

    def __init__(self, function: ir.Function, constants: Mapping[ir.Value, ir.Constant]) -> None:
        self._constants = dict(constants)
        self._converted: dict[ir.Value, ir.Constant] = {}
        for op in function.body:
            match op:
                case ir.View(source=source, result=result, mode=ir.ViewMode.ALIAS) if op.offset == Int(0):
                    for values in (self._constants, self._converted):
                        if source in values:
                            values[result] = values[source]
                case ir.CallExtern(target=target, result=result) if target == _CONVERSION:
                    constant = _widened(op, self._constants)
                    if constant is not None and isinstance(result, ir.Value):
                        self._converted[result] = constant
                case _:
                    pass

    def constant(self, value: ir.Arg) -> ir.Constant | None:
        """Returns the constant that a value is or views, if its bytes may be stored otherwise."""
        return _storable(self._constants, value)

    def converted(self, value: ir.Arg) -> ir.Constant | None:
        """Returns the constant of int8 that a value is or views as floats, if its bytes may be stored
        otherwise."""
        return _storable(self._converted, value)

    def reads(self, value: ir.Value) -> bool:
        """Returns whether a value is such a view or conversion, other than a constant itself."""
        constant = self.constant(value) or self.converted(value)
        return constant is not None and constant.value != value


def _storable(values: Mapping[ir.Value, ir.Constant], value: ir.Arg) -> ir.Constant | None:
    constant = values.get(value) if isinstance(value, ir.Value) else None
    if constant is None or constant.mutable or constant.storage or constant.packing is not None:
        return None
    return constant if ir.device_of(constant.value) == ir.CPU else None


def _widened(op: ir.CallExtern, constants: Mapping[ir.Value, ir.Constant]) -> ir.Constant | None:
    """Returns the whole constant of int8 that a call converts to floats of the same layout."""
    source, result = op.args[0], op.result
    if not ir.is_tensor(source) or not ir.is_tensor(result) or source not in constants:
        return None
    old, new = source.type, result.type
    is_same = (old.sizes, old.strides, old.device) == (new.sizes, new.strides, new.device)
    is_widened = old.dtype is ir.DType.I8 and new.dtype.is_floating
    return constants[source] if is_same and is_widened and constants[source].value == source else None


def numbers(type: ir.TensorType) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Returns the sizes and strides of a type; None if some are symbolic."""
    sizes, strides = (
        tuple(e.integer for e in part if e.integer is not None) for part in (type.sizes, type.strides)
    )
    is_fixed = len(sizes) == len(type.sizes) and len(strides) == len(type.strides)
    return (sizes, strides) if is_fixed else None


def without_packing(constant: ir.Constant, layout: ir.PackedLayout) -> ir.Packing | None:
    """Returns a packing of a constant that lacks the fields of its layout; None for symbolic sizes."""
    value = constant.value
    layout_numbers = numbers(value.type) if ir.is_tensor(value) else None
    if layout_numbers is None:
        return None
    sizes, strides = layout_numbers
    packing = ir.Packing(layout=layout, original=constant.value.name, sizes=sizes)
    return packing if packing.memory_strides == strides else dataclasses.replace(packing, strides=strides)


def matrix_packing(
    constant: ir.Constant, matrix: ir.TensorType, layout: ir.PackedLayout
) -> ir.Packing | None:
    """Returns the packing of a constant that is viewed as a matrix; None unless the view has all elements."""
    base, window = without_packing(constant, layout), numbers(matrix)
    if base is None or window is None or len(window[0]) != 2 or math.prod(base.sizes) != math.prod(window[0]):
        return None
    (rows, columns), (row, column) = window
    is_straight = (rows == 1 or row == columns) and (columns == 1 or column == 1)
    is_transposed = (rows == 1 or row == 1) and (columns == 1 or column == rows)
    if not is_straight and not is_transposed:
        return None
    return dataclasses.replace(base, columns=columns, transposed=not is_straight)

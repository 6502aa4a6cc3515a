"""Operands of calls that are constants, or views of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.expr import Int


class ConstantViews:
    """The values of one function that are constants, or views from the first byte of one."""

    def __init__(self, function: ir.Function, constants: Mapping[ir.Value, ir.Constant]) -> None:
        self._constants = dict(constants)
        for op in function.ops_of(ir.View):
            constant = self._constants.get(op.source)
            if constant is not None and op.mode is ir.ViewMode.ALIAS and op.offset == Int(0):
                self._constants[op.result] = constant

    def constant(self, value: ir.Arg) -> ir.Constant | None:
        """Returns the constant that a value is or views, if its bytes may be stored otherwise."""
        constant = self._constants.get(value) if isinstance(value, ir.Value) else None
        if constant is None or constant.mutable or constant.storage or constant.packing is not None:
            return None
        return constant if ir.device_of(constant.value) == ir.CPU else None


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

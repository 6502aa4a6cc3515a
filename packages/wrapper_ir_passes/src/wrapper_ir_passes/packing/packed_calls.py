"""Calls of matmuls and convolutions whose weight is a constant, as calls that read it packed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.operators.native import (
    EPILOGUE,
    FUSED_CONVOLUTION,
    INT8_LINEAR,
    PACKED_ADDMM,
    PACKED_ADDMM_INT8,
    PACKED_CONVOLUTION,
    PACKED_INT8_LINEAR,
)
from wrapper_ir_passes.packing.constant_views import ConstantViews, matrix_packing, without_packing

_MATMULS = ("aten::addmm", "aten::addmm.out", "aten::mm", "aten::mm.out")
_INT8_MATMULS = ("aten::_weight_int8pack_mm", "aten::_int_mm", "aten::_int_mm.out")
_CONVOLUTIONS = ("aten::convolution", "aten::convolution.out", FUSED_CONVOLUTION.name)
_LEAST_COLUMNS = ir.PANEL // 2
"""Fewer columns would more than double the bytes of a weight."""


@dataclass(frozen=True, slots=True)
class PackedCall:
    """A call over a packed weight: its operator, arguments, and the constant with its packing."""

    extern: ir.ExternDef
    constant: ir.Constant
    packing: ir.Packing
    before: tuple[ir.Arg, ...]
    after: tuple[ir.Arg, ...]
    """Arguments before and after the packed weight."""


_LAYOUTS = {
    ir.DType.F32: ir.PackedLayout.PANELS,
    ir.DType.BF16: ir.PackedLayout.PAIRS,
    ir.DType.F16: ir.PackedLayout.PAIRS,
    ir.DType.I8: ir.PackedLayout.QUADS,
}
"""Layouts of matrices by element type."""
_MOST_BYTES = {dtype: 4 if dtype is ir.DType.I8 else dtype.itemsize for dtype in _LAYOUTS}
"""Bytes of an element of the largest result, by the element type of the matrix."""


def packed_call(
    op: ir.CallExtern,
    args: Mapping[str, ir.Arg],
    output: ir.Value[ir.TensorType],
    views: ConstantViews,
    *,
    rounds_rows: bool = False,
) -> PackedCall | None:
    """Returns the packed form of a call with these arguments; None if it must stay.

    `rounds_rows`: linear layers may round rows of floats to 16 bits.
    """
    if op.target == INT8_LINEAR.name:
        return _packed_int8_linear(args, output, views, rounds_rows=rounds_rows)
    if op.target in _MATMULS:
        return _packed_matmul(args, output, views)
    if op.target in _INT8_MATMULS:
        return _packed_int8_matmul(args, output, views)
    if op.target in _CONVOLUTIONS:
        return _packed_convolution(args, output, views)
    return None


def _packed_matmul(
    args: Mapping[str, ir.Arg], output: ir.Value[ir.TensorType], views: ConstantViews
) -> PackedCall | None:
    is_sum = "mat1" in args
    bias, rows, matrix = (args["self"] if is_sum else None), args["mat1" if is_sum else "self"], args["mat2"]
    constant = views.constant(matrix) or views.converted(matrix)
    if constant is None or not ir.is_tensor(matrix) or not output.type.dtype.is_floating:
        return None
    if not _are_like(output, matrix, rows, bias):
        return None
    assert ir.is_tensor(constant.value)
    dtype = constant.value.type.dtype
    packing = _matrix_packing(constant, dataclasses.replace(matrix.type, dtype=dtype))
    if packing is None or output.type.dtype.itemsize > _MOST_BYTES[dtype]:
        return None
    columns = Int(packing.columns)
    if not (_is_row(bias, columns) and _is_one(args.get("beta")) and _is_one(args.get("alpha"))):
        return None
    if dtype is ir.DType.I8:
        return PackedCall(PACKED_ADDMM_INT8, constant, packing, (bias, rows), (None, columns))
    return PackedCall(PACKED_ADDMM, constant, packing, (bias, rows), (columns,))


def _packed_int8_matmul(
    args: Mapping[str, ir.Arg], output: ir.Value[ir.TensorType], views: ConstantViews
) -> PackedCall | None:
    """Returns the packed form of a matmul with a matrix of int8, which is transposed if it has scales."""
    rows, matrix, scales = args["self"], args["mat2"], args.get("scales")
    constant = views.constant(matrix)
    if constant is None or not ir.is_tensor(matrix) or not ir.is_tensor(rows):
        return None
    type = matrix.type
    if scales is not None:
        type = dataclasses.replace(type, sizes=type.sizes[::-1], strides=type.strides[::-1])
    packing = _matrix_packing(constant, type)
    if packing is None or type.dtype is not ir.DType.I8 or output.type.device != rows.type.device:
        return None
    is_scaled = (
        rows.type.dtype.is_floating and rows.type.dtype.itemsize < 8 and rows.type.dtype is output.type.dtype
    )
    is_exact = rows.type.dtype in (ir.DType.I8, ir.DType.U8) and output.type.dtype is ir.DType.I32
    columns = Int(packing.columns)
    if not (is_exact if scales is None else is_scaled and _is_row(scales, columns)):
        return None
    return PackedCall(PACKED_ADDMM_INT8, constant, packing, (None, rows), (scales, columns))


def _packed_int8_linear(
    args: Mapping[str, ir.Arg], output: ir.Value[ir.TensorType], views: ConstantViews, *, rounds_rows: bool
) -> PackedCall | None:
    """Returns the packed form of a linear layer."""
    rows, weight, scales, bias = (args[name] for name in ("input", "weight", "scales", "bias"))
    constant = views.constant(weight)
    if constant is None or not ir.is_tensor(weight) or not ir.is_tensor(rows):
        return None
    type = weight.type
    matrix = dataclasses.replace(type, sizes=type.sizes[::-1], strides=type.strides[::-1])
    packing = _matrix_packing(constant, matrix)
    if packing is None or type.dtype is not ir.DType.I8 or not _are_like(output, scales, bias):
        return None
    columns = Int(packing.columns)
    if output.type.device != rows.type.device or not (_is_row(scales, columns) and _is_row(bias, columns)):
        return None
    kind, *end = _layer_end(args)
    if rounds_rows and kind == "exact" and rows.type.dtype.is_floating:
        kind = "fixed"
    return PackedCall(
        PACKED_INT8_LINEAR,
        constant,
        packing,
        (rows,),
        (scales, args["row_scales"], bias, columns, kind, *end),
    )


_LAYER_END: tuple[tuple[str, ir.Arg], ...] = (
    ("rows", "exact"), ("activation", "none"), ("low", Float(0.0)), ("high", Float(0.0))
)  # fmt: skip


def _layer_end(args: Mapping[str, ir.Arg]) -> tuple[ir.Arg, ...]:
    """Returns the last arguments of a linear layer, of which a call may omit some."""
    return tuple(args.get(name, default) for name, default in _LAYER_END)


def _matrix_packing(constant: ir.Constant, matrix: ir.TensorType) -> ir.Packing | None:
    """Returns the packing of a matrix; None if its elements have no layout, or panels would be mostly
    padding."""
    layout = _LAYOUTS.get(matrix.dtype)
    packing = None if layout is None else matrix_packing(constant, matrix, layout)
    if packing is None or packing.columns < _LEAST_COLUMNS or packing.fault(matrix.dtype):
        return None
    return packing


def _packed_convolution(
    args: Mapping[str, ir.Arg], output: ir.Value[ir.TensorType], views: ConstantViews
) -> PackedCall | None:
    source, weight, bias, groups = (args[name] for name in ("input", "weight", "bias", "groups"))
    constant = views.constant(weight)
    if constant is None or constant.value != weight or args.get("transposed") not in (None, Bool(False)):
        return None
    operands = (constant.value, source, bias, args.get("scale"), args.get("residual"))
    if output.type.dtype is not ir.DType.F32 or not _are_like(output, *operands):
        return None
    packing = _convolution_packing(constant, groups)
    if packing is None or len(output.type.sizes) != len(packing.sizes):
        return None
    outputs, kernel = Int(packing.sizes[0]), tuple(map(Int, packing.sizes[2:]))
    if not _is_row(bias, outputs) or not _is_row(args.get("scale"), outputs):
        return None
    steps = (args["stride"], args["padding"], args["dilation"])
    epilogue = tuple(args[name] for name in EPILOGUE if name in args)
    after = (bias, kernel, outputs, *steps, groups, *epilogue)
    return PackedCall(PACKED_CONVOLUTION, constant, packing, (source,), after)


def _convolution_packing(constant: ir.Constant, groups: ir.Arg) -> ir.Packing | None:
    """Returns the packing of a convolution's weight; None if its panels would be mostly padding."""
    packing = without_packing(constant, ir.PackedLayout.CONVOLUTION)
    match groups:
        case Int(count) if packing is not None:
            packing = dataclasses.replace(packing, groups=count)
        case _:
            return None
    if packing.sizes[:2] == (count, 1) and count > 1:
        packing = dataclasses.replace(packing, layout=ir.PackedLayout.DEPTHWISE)
    if packing.fault(ir.DType.F32) or packing.panels.columns < _LEAST_COLUMNS:
        return None
    return packing


def _are_like(output: ir.Value[ir.TensorType], *operands: ir.Arg) -> bool:
    """Returns whether operands are tensors of the output's element type and device, or none."""
    like = (output.type.dtype, output.type.device)
    return all(
        one is None or (ir.is_tensor(one) and (one.type.dtype, one.type.device) == like) for one in operands
    )


def _is_row(bias: ir.Arg, columns: Int) -> bool:
    """Returns whether a bias is missing, or has a number for each column."""
    return bias is None or (ir.is_tensor(bias) and bias.type.sizes == (columns,))


def _is_one(factor: ir.Arg) -> bool:
    """Returns whether a factor is 1, or missing."""
    return factor is None or factor in (Int(1), Float(1.0))

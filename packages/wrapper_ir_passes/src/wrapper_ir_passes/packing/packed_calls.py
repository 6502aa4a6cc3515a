"""Calls of matmuls and convolutions whose weight is a constant, as calls that read it packed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.operators.native import PACKED_ADDMM, PACKED_CONVOLUTION
from wrapper_ir_passes.packing.constant_views import ConstantViews, matrix_packing, without_packing

_MATMULS = ("aten::addmm", "aten::addmm.out", "aten::mm", "aten::mm.out")
_CONVOLUTIONS = ("aten::convolution", "aten::convolution.out")
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


def packed_call(
    op: ir.CallExtern,
    args: Mapping[str, ir.Arg],
    output: ir.Value[ir.TensorType],
    views: ConstantViews,
    dtypes: Mapping[ir.DType, ir.PackedLayout],
) -> PackedCall | None:
    """Returns the packed form of a call with these arguments; None if it must stay.

    `dtypes` are the layouts of matrices by element type.
    """
    if op.target in _MATMULS:
        return _packed_matmul(args, output, views, dtypes)
    if op.target in _CONVOLUTIONS:
        return _packed_convolution(args, output, views)
    return None


def _packed_matmul(
    args: Mapping[str, ir.Arg],
    output: ir.Value[ir.TensorType],
    views: ConstantViews,
    dtypes: Mapping[ir.DType, ir.PackedLayout],
) -> PackedCall | None:
    is_sum = "mat1" in args
    bias, rows, matrix = (args["self"] if is_sum else None), args["mat1" if is_sum else "self"], args["mat2"]
    constant = views.constant(matrix)
    if constant is None or not ir.is_tensor(matrix) or not _are_like(output, matrix, rows, bias):
        return None
    layout = dtypes.get(matrix.type.dtype)
    packing = None if layout is None else matrix_packing(constant, matrix.type, layout)
    if packing is None or packing.columns < _LEAST_COLUMNS or packing.fault(matrix.type.dtype):
        return None
    columns = Int(packing.columns)
    if not (_is_row(bias, columns) and _is_one(args.get("beta")) and _is_one(args.get("alpha"))):
        return None
    return PackedCall(PACKED_ADDMM, constant, packing, (bias, rows), (columns,))


def _packed_convolution(
    args: Mapping[str, ir.Arg], output: ir.Value[ir.TensorType], views: ConstantViews
) -> PackedCall | None:
    source, weight, bias, groups = (args[name] for name in ("input", "weight", "bias", "groups"))
    constant = views.constant(weight)
    if constant is None or constant.value != weight or args["transposed"] != Bool(False):
        return None
    if output.type.dtype is not ir.DType.F32 or not _are_like(output, constant.value, source, bias):
        return None
    packing = _convolution_packing(constant, groups)
    if packing is None or len(output.type.sizes) != len(packing.sizes):
        return None
    outputs, kernel = Int(packing.sizes[0]), tuple(map(Int, packing.sizes[2:]))
    if not _is_row(bias, outputs):
        return None
    steps = (args["stride"], args["padding"], args["dilation"])
    return PackedCall(
        PACKED_CONVOLUTION, constant, packing, (source,), (bias, kernel, outputs, *steps, groups)
    )


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

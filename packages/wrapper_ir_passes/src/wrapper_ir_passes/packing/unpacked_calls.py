"""Calls over packed weights, as calls of torch's operators over the original weight."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.expr import Bool, Int
from wrapper_ir.operators.native import (
    EPILOGUE,
    FUSED_CONVOLUTION,
    INT8_LINEAR,
    PACKED_ADDMM,
    PACKED_ADDMM_INT8,
    PACKED_CONVOLUTION,
    PACKED_INT8_LINEAR,
)

MM = ir.ExternDef(schema="aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)")
ADDMM = ir.ExternDef(
    schema="aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, "
    "Tensor(a!) out) -> Tensor(a!)"
)
INT_MM = ir.ExternDef(schema="aten::_int_mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)")
INT8_MM = ir.ExternDef(schema="aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor")
CONVOLUTION = ir.ExternDef(
    schema="aten::convolution.out(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, "
    "SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, *, "
    "Tensor(a!) out) -> Tensor(a!)"
)
ORIGINALS = (MM, ADDMM, INT_MM, INT8_MM, CONVOLUTION)
"""Operators of torch that read the original."""
PACKED = (PACKED_ADDMM, PACKED_ADDMM_INT8, PACKED_INT8_LINEAR, PACKED_CONVOLUTION)
"""Operators that read a packed weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedCall:
    """A call over the original of a packed constant, which is read as a tensor of type `weight`."""

    extern: ir.ExternDef
    constant: ir.Constant
    weight: ir.TensorType
    before: tuple[ir.Arg, ...]
    after: tuple[ir.Arg, ...] = ()
    """Positional arguments before and after the weight."""
    kwargs: tuple[tuple[str, ir.Arg], ...] = ()
    output: ir.Value[ir.TensorType]
    has_out: bool = True
    """The operator writes to `output` itself."""


def unpacked_call(
    target: str, args: Mapping[str, ir.Arg], packed: Mapping[ir.Value, ir.Constant]
) -> UnpackedCall | None:
    """Returns the original form of a call over a packed constant; None if `pack-constants` does not write
    such a call."""
    weight, output = args["packed"], args["out"]
    constant = packed.get(weight) if isinstance(weight, ir.Value) else None
    if constant is None or not ir.is_tensor(output) or not ir.is_tensor(constant.value):
        return None
    match target:
        case PACKED_ADDMM.name:
            return _matmul(args, constant, output)
        case PACKED_ADDMM_INT8.name:
            return _int8_matmul(args, constant, output)
        case PACKED_INT8_LINEAR.name:
            return _int8_linear(args, constant, output)
        case PACKED_CONVOLUTION.name:
            return _convolution(args, constant, output)
        case _:
            return None


def _matmul(
    args: Mapping[str, ir.Arg], constant: ir.Constant, output: ir.Value[ir.TensorType]
) -> UnpackedCall | None:
    matrix = _matrix(constant, args)
    bias, rows = args["bias"], args["mat1"]
    if matrix is None or not ir.is_tensor(rows) or len(rows.type.sizes) != 2:
        return None
    if bias is None:
        return UnpackedCall(extern=MM, constant=constant, weight=matrix, before=(rows,), output=output)
    factors = (("alpha", Int(1)), ("beta", Int(1)))
    return UnpackedCall(
        extern=ADDMM, constant=constant, weight=matrix, before=(bias, rows), kwargs=factors, output=output
    )


def _int8_matmul(
    args: Mapping[str, ir.Arg], constant: ir.Constant, output: ir.Value[ir.TensorType]
) -> UnpackedCall | None:
    matrix = _matrix(constant, args)
    rows, scales = args["mat1"], args["scales"]
    if matrix is None or args["bias"] is not None or not ir.is_tensor(rows) or len(rows.type.sizes) != 2:
        return None
    if scales is None:
        is_exact = rows.type.dtype is ir.DType.I8
        call = UnpackedCall(extern=INT_MM, constant=constant, weight=matrix, before=(rows,), output=output)
        return call if is_exact and output.type.dtype is ir.DType.I32 else None
    depth, columns = matrix.sizes
    if not rows.type.dtype.is_floating or (matrix.strides[0] != Int(1) and depth != Int(1)):
        return None  # the operator reads a contiguous matrix of `columns` rows
    sizes = (columns, depth)
    contiguous = ir.TensorType(matrix.dtype, sizes, ir.contiguous_strides(sizes), matrix.device)
    return UnpackedCall(
        extern=INT8_MM, constant=constant, weight=contiguous, before=(rows,), after=(scales,), output=output,
        has_out=False,
    )  # fmt: skip


def _int8_linear(
    args: Mapping[str, ir.Arg], constant: ir.Constant, output: ir.Value[ir.TensorType]
) -> UnpackedCall | None:
    matrix = _matrix(constant, args)
    if matrix is None:
        return None
    weight = dataclasses.replace(matrix, sizes=matrix.sizes[::-1], strides=matrix.strides[::-1])
    after = tuple(args[name] for name in ("scales", "row_scales", "bias"))
    end = tuple(args[name] for name in ("rows", "activation", "low", "high") if name in args)
    return UnpackedCall(
        extern=INT8_LINEAR, constant=constant, weight=weight, before=(args["input"],), after=(*after, *end),
        output=output, has_out=False,
    )  # fmt: skip


def _matrix(constant: ir.Constant, args: Mapping[str, ir.Arg]) -> ir.TensorType | None:
    """Returns the type of the matrix that a packed constant is; None if the call reads it otherwise."""
    packing, packed = constant.packing, constant.value.type
    if packing is None or not isinstance(packed, ir.TensorType) or not packing.is_matrix:
        return None
    panels = packing.panels
    if args["columns"] != Int(packing.columns):
        return None
    ((depth, row),) = panels.rows
    return ir.TensorType(
        packed.dtype, (Int(depth), Int(packing.columns)), (Int(row), Int(panels.column_stride)), packed.device
    )


def _convolution(
    args: Mapping[str, ir.Arg], constant: ir.Constant, output: ir.Value[ir.TensorType]
) -> UnpackedCall | None:
    packing, packed = constant.packing, constant.value.type
    if packing is None or not isinstance(packed, ir.TensorType) or packing.is_matrix:
        return None
    outputs, _, *kernel = packing.sizes
    facts = (tuple(map(Int, kernel)), Int(outputs), Int(packing.groups))
    if (args["kernel"], args["out_channels"], args["groups"]) != facts:
        return None
    steps = (args["stride"], args["padding"], args["dilation"])
    if epilogue := tuple(args[name] for name in EPILOGUE if name in args):
        return UnpackedCall(
            extern=FUSED_CONVOLUTION, constant=constant, weight=packing.original_type(packed),
            before=(args["input"],), after=(args["bias"], *steps, args["groups"], *epilogue), output=output,
            has_out=False,
        )  # fmt: skip
    no_padding = (Int(0),) * len(kernel)
    return UnpackedCall(
        extern=CONVOLUTION, constant=constant, weight=packing.original_type(packed), before=(args["input"],),
        after=(args["bias"], *steps, Bool(False), no_padding, args["groups"]), output=output,
    )  # fmt: skip

"""Operators of the native runtime, as compositions of torch's own.

Passes write these operators into programs for libraries without torch, which contain kernels for them. With
torch, the operators make every program run in every engine: packed weights are unpacked in each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wrapper_ir import ir
from wrapper_ir.operators.native import (
    ATTENTION,
    FUSED_CONVOLUTION,
    INT8_LINEAR,
    PACKED_ADDMM,
    PACKED_ADDMM_INT8,
    PACKED_CONVOLUTION,
    PACKED_INT8_LINEAR,
    ROUNDINGS,
)

# Any: torch leaves its registry of operators untyped
_library: Any = torch.library
_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


def _matrix(packed: Tensor, rows: int, columns: int) -> Tensor:
    """Returns the matrix of panels `[N/16, K, 16]`, or of interleaved rows `[N/16, K/i, 16, i]`."""
    lanes = packed if packed.dim() == 4 else packed.unsqueeze(-1)
    return lanes.permute(1, 3, 0, 2).flatten(0, 1).flatten(1)[:rows, :columns]


def _weight(packed: Tensor, kernel: Sequence[int], outputs: int, groups: int) -> Tensor:
    """Returns a convolution's weight from the panels of its groups, or from those of all its channels."""
    if packed.dim() == 3:
        matrix = _matrix(packed, math.prod(kernel), outputs).t()
    else:
        rows = packed.size(2)
        matrix = torch.cat([_matrix(group, rows, outputs // groups).t() for group in packed])
    return matrix.reshape(outputs, *kernel, -1).movedim(-1, 1)


def _packed_addmm(bias: Tensor | None, mat1: Tensor, packed: Tensor, columns: int, *, out: Tensor) -> Tensor:
    matrix = _matrix(packed, mat1.size(1), columns)
    if bias is None:
        return torch.mm(mat1, matrix, out=out)
    return torch.addmm(bias, mat1, matrix, out=out)


def _packed_addmm_int8(
    bias: Tensor | None, mat1: Tensor, packed: Tensor, scales: Tensor | None, columns: int, *, out: Tensor
) -> Tensor:
    wide = torch.float32 if mat1.is_floating_point() else torch.float64  # exact for sums of products of bytes
    result = mat1.to(wide) @ _matrix(packed, mat1.size(1), columns).to(wide)
    if scales is not None:
        result = result * scales
    return out.copy_(result if bias is None else result + bias)


_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu,
    "hardswish": F.hardswish,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
}


def _activated(x: Tensor, activation: str, low: float, high: float) -> Tensor:
    if activation == "clamp":
        return x.clamp(low, high)
    if activation not in _ACTIVATIONS:
        raise ValueError(f"no activation {activation!r}: clamp, {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[activation](x)


def _rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows rounded to integers of 8 bits, and their scales, as torchao does."""
    largest = rows.abs().amax(1, keepdim=True) if rows.size(1) else rows.new_zeros(rows.size(0), 1)
    scales = (largest / 127.5).clamp(min=torch.finfo(torch.float32).eps)
    # A row that is not finite has no integers; its scale makes the result NaN.
    integers = (rows * (1.0 / scales)).round().clamp(-128, 127).nan_to_num(0.0)
    return integers, torch.where(scales.isfinite(), scales, torch.nan)


def _int8_layer(  # noqa: PLR0913 - the operator's own
    input: Tensor, matrix: Tensor, scales: Tensor | None, row_scales: Tensor | None, bias: Tensor | None,
    rows: str, activation: str, low: float, high: float,
) -> Tensor:  # fmt: skip
    if rows not in ROUNDINGS:
        raise ValueError(f"no rounding of rows {rows!r}: {', '.join(ROUNDINGS)}")
    if rows == "int8":
        input, row_scales = _rounded(input)
    is_exact = rows == "int8" or not input.is_floating_point()
    wide = torch.float64 if is_exact else torch.float32  # exact for sums of products of bytes
    result = (input.to(wide) @ matrix.to(wide)).float()
    if row_scales is not None:
        result = result * row_scales.reshape(-1, 1)
    if scales is not None:
        result = result * scales
    return _activated(result if bias is None else result + bias, activation, low, high)


def _int8_linear(  # noqa: PLR0913 - the operator's own
    input: Tensor, weight: Tensor, scales: Tensor | None, row_scales: Tensor | None, bias: Tensor | None,
    rows: str = "exact", activation: str = "none", low: float = 0.0, high: float = 0.0,
) -> Tensor:  # fmt: skip
    return _int8_layer(input, weight.t(), scales, row_scales, bias, rows, activation, low, high)


def _fake_int8_linear(input: Tensor, weight: Tensor, *_: object) -> Tensor:
    return input.new_empty((input.size(0), weight.size(0)), dtype=torch.float32)


def _packed_int8_linear(  # noqa: PLR0913 - the operator's own
    input: Tensor, packed: Tensor, scales: Tensor | None, row_scales: Tensor | None, bias: Tensor | None,
    columns: int, rows: str = "exact", activation: str = "none", low: float = 0.0, high: float = 0.0, *,
    out: Tensor,
) -> Tensor:  # fmt: skip
    matrix = _matrix(packed, input.size(1), columns)
    return out.copy_(_int8_layer(input, matrix, scales, row_scales, bias, rows, activation, low, high))


def _fused_convolution(  # noqa: PLR0913 - the operator's own
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    scale: Tensor | None = None,
    residual: Tensor | None = None,
    activation: str = "none",
    low: float = 0.0,
    high: float = 0.0,
) -> Tensor:
    no_padding = [0] * len(stride)
    first = bias if scale is None else None
    result = torch.convolution(input, weight, first, stride, padding, dilation, False, no_padding, groups)
    channels = (-1, *(1,) * (result.dim() - 2))
    if scale is not None:
        result = result * scale.view(channels)
        result = result if bias is None else result + bias.view(channels)
    return _activated(result if residual is None else result + residual, activation, low, high)


def _fake_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    *_: object,
) -> Tensor:
    no_padding = [0] * len(stride)
    return torch.convolution(input, weight, None, stride, padding, dilation, False, no_padding, groups)


def _packed_convolution(  # noqa: PLR0913 - the operator's own
    input: Tensor,
    packed: Tensor,
    bias: Tensor | None,
    kernel: Sequence[int],
    out_channels: int,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    *epilogue: Any,
    out: Tensor,
) -> Tensor:
    weight = _weight(packed, kernel, out_channels, groups)
    return out.copy_(_fused_convolution(input, weight, bias, stride, padding, dilation, groups, *epilogue))


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool,
    mask: Tensor | None,
    scale: float | None,
    *,
    out: Tensor,
) -> Tensor:
    repeats = query.size(1) // max(key.size(1), 1)
    if repeats > 1:
        key, value = (heads.repeat_interleave(repeats, 1) for heads in (key, value))
    result, _ = _FLASH(query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale)
    return out.copy_(result)


def _fake(*args: object, out: Tensor) -> Tensor:
    return out


def _define(extern: ir.ExternDef, function: Callable[..., Tensor], fake: Callable[..., Tensor]) -> None:
    # Operands may have any strides: Inductor copies none of them.
    _library.define(extern.name, extern.schema.removeprefix(extern.name), tags=(torch.Tag.flexible_layout,))
    _library.impl(extern.name, "CompositeExplicitAutograd", function)
    _library.register_fake(extern.name, fake)


for _extern, _function in (
    (PACKED_ADDMM, _packed_addmm),
    (PACKED_ADDMM_INT8, _packed_addmm_int8),
    (PACKED_INT8_LINEAR, _packed_int8_linear),
    (PACKED_CONVOLUTION, _packed_convolution),
    (ATTENTION, _attention),
):
    _define(_extern, _function, _fake)
_define(FUSED_CONVOLUTION, _fused_convolution, _fake_convolution)
_define(INT8_LINEAR, _int8_linear, _fake_int8_linear)

"""Operators that torch does not have, for the native runtime.

Passes write calls of them. A library of the native runtime contains their kernels. `wrapper_ir_torch`
registers their meaning with torch, so that other engines run the same programs.
"""

from __future__ import annotations

from wrapper_ir import ir

NAMESPACE = "wrapper_ir"
"""The namespace of these operators."""

PACKED_ADDMM = ir.ExternDef(
    schema="wrapper_ir::packed_addmm.out(Tensor? bias, Tensor mat1, Tensor packed, SymInt columns, *, "
    "Tensor(a!) out) -> Tensor(a!)"
)
"""Writes `bias + mat1 @ B`. B is a matrix of `columns` columns, packed in panels; `bias` has a number for
each column."""

PACKED_ADDMM_INT8 = ir.ExternDef(
    schema="wrapper_ir::packed_addmm_int8.out(Tensor? bias, Tensor mat1, Tensor packed, Tensor? scales, "
    "SymInt columns, *, Tensor(a!) out) -> Tensor(a!)"
)
"""Writes `bias + scales * (mat1 @ B)`. B is a matrix of int8 in panels, and `mat1` one of floats, or of 8-bit
integers, whose sums are exact. `scales` has a number for each column."""

_LAYER = 'str rows="exact", str activation="none", float low=0., float high=0.'

INT8_LINEAR = ir.ExternDef(
    schema="wrapper_ir::int8_linear(Tensor input, Tensor weight, Tensor? scales, Tensor? row_scales, "
    f"Tensor? bias, {_LAYER}) -> Tensor"
)
"""Returns `activation(input @ weight.T * row_scales * scales + bias)`.

`weight` is a matrix of int8, `scales` and `bias` have a number for each of its rows. Rows of `input` are
float32, or int8 with a number each in `row_scales`; the result is float32. `rows` is one of `ROUNDINGS`, and
`activation` one of `ACTIVATIONS`."""

PACKED_INT8_LINEAR = ir.ExternDef(
    schema="wrapper_ir::packed_int8_linear.out(Tensor input, Tensor packed, Tensor? scales, "
    f"Tensor? row_scales, Tensor? bias, SymInt columns, {_LAYER}, *, Tensor(a!) out) -> Tensor(a!)"
)
"""Writes the result of `INT8_LINEAR`. The transposed weight has `columns` columns, packed in panels."""

ROUNDINGS = ("exact", "fixed", "int8")
"""The rounding of rows of floats before a product: none; to 16-bit integers where that is faster; to int8.

A row's integers have one scale: its largest magnitude over 32,767, or over 127.5 (at least 2^-23) as
torchao's symmetric rows."""

_EPILOGUE = 'Tensor? scale=None, Tensor? residual=None, str activation="none", float low=0., float high=0.'

FUSED_CONVOLUTION = ir.ExternDef(
    schema="wrapper_ir::fused_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, "
    f"SymInt[] padding, SymInt[] dilation, SymInt groups, {_EPILOGUE}) -> Tensor"
)
"""Returns `activation(scale * C + bias + residual)`. C is the result of `aten::convolution` without a bias,
not transposed; `scale` and `bias` have a number for each channel, `residual` has its sizes. `activation` is
one of `ACTIVATIONS`; `clamp` has the bounds `low` and `high`."""

PACKED_CONVOLUTION = ir.ExternDef(
    schema="wrapper_ir::packed_convolution.out(Tensor input, Tensor packed, Tensor? bias, SymInt[] kernel, "
    "SymInt out_channels, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups, "
    f"{_EPILOGUE}, *, Tensor(a!) out) -> Tensor(a!)"
)
"""Writes the result of `FUSED_CONVOLUTION`. The packed weight has the spatial sizes `kernel`; the weight of a
depthwise convolution has one dimension less."""

EPILOGUE = ("scale", "residual", "activation", "low", "high")
"""Arguments of an epilogue, in order."""

ACTIVATIONS = ("none", "relu", "clamp", "hardswish", "sigmoid", "silu", "gelu")
"""Activations of fused operators, by torch's names; `gelu` is the exact one."""

ATTENTION = ir.ExternDef(
    schema="wrapper_ir::attention.out(Tensor query, Tensor key, Tensor value, bool is_causal, Tensor? mask, "
    "float? scale, *, Tensor(a!) out) -> Tensor(a!)"
)
"""Writes the first result of `aten::_scaled_dot_product_flash_attention_for_cpu` without dropout. Several
heads of `query` may share one of `key` and `value`."""

NATIVE_OPERATORS = (
    PACKED_ADDMM,
    PACKED_ADDMM_INT8,
    INT8_LINEAR,
    PACKED_INT8_LINEAR,
    FUSED_CONVOLUTION,
    PACKED_CONVOLUTION,
    ATTENTION,
)
"""All of these operators."""

"""Calls of attention on CUDA devices that a Triton kernel can compute, with reasons against the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Bool, Expr, Float, Int, prove_eq
from wrapper_ir_passes.cleanup.result_storages import only_result
from wrapper_ir_passes.devices.source_kernels import expanded_strides, fixed_number

_EFFICIENT = "aten::_scaled_dot_product_efficient_attention"
OPERATORS = (
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    _EFFICIENT,
)
"""The operators whose calls are replaced."""
_DTYPES = (ir.DType.F32, ir.DType.F16, ir.DType.BF16)
_MAX_WIDTH = 256
_Tensor = ir.Value[ir.TensorType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """A call without dropout, of whose results the program reads only the first, `result`.

    `group` heads of the query share a head of key and value. `mask_strides` are those of the mask, expanded
    to the sizes of the scores.
    """

    query: _Tensor
    key: _Tensor
    value: _Tensor
    result: _Tensor
    mask: _Tensor | None
    mask_strides: tuple[Expr, ...]
    is_causal: bool
    scale: float
    group: int

    @property
    def operands(self) -> tuple[_Tensor, ...]:
        """The tensors that a kernel reads."""
        return (self.query, self.key, self.value, *(() if self.mask is None else (self.mask,)))

    @property
    def width(self) -> int:
        """Elements of a row of query and key."""
        return _number(self.query.type.sizes[3])

    @property
    def value_width(self) -> int:
        """Elements of a row of value and result."""
        return _number(self.value.type.sizes[3])


def _number(size: Expr) -> int:
    return fixed_number(size) or 0


def attention_of(op: ir.CallExtern, function: ir.Function, analyses: Analyses) -> Attention | str:
    """Returns what a call of one of `OPERATORS` computes, or the reason why no kernel computes it."""
    info = analyses.operator(op.target)
    if info is None or op.result is None:
        return "its results are unknown"
    args = dict(zip((a.name for a in info.schema.args), op.args)) | dict(op.kwargs)
    result = only_result(op.result, function)
    if result is None:
        return "the program reads other results than the first"
    if args.get("dropout_p", Int(0)) not in (Int(0), Float(0.0)):
        return "it has dropout"
    query, key, value, mask = (args.get(name) for name in ("query", "key", "value", "attn_bias"))
    if not (ir.is_tensor(query) and ir.is_tensor(key) and ir.is_tensor(value)):
        return "its operands are unknown"
    reason = _against((query, key, value, result), analyses.program.target)
    if reason is not None:
        return reason
    q, k = query.type.sizes, key.type.sizes
    is_causal = args.get("is_causal", Bool(False))
    if is_causal != Bool(False) and op.target != _EFFICIENT and not prove_eq(q[2], k[2]):
        return "it is causal with other lengths of query and key"
    strides: tuple[Expr, ...] | None = (Int(0),) * 4
    if ir.is_tensor(mask):
        strides = expanded_strides(mask.type, (q[0], q[1], q[2], k[2]))
    scale, group = _scale(args.get("scale"), q[3]), _group(q[1], k[1])
    if strides is None or scale is None or group is None or not isinstance(is_causal, Bool):
        return "its mask, scale or heads are known at run time only"
    return Attention(
        query=query,
        key=key,
        value=value,
        result=result,
        mask=mask if ir.is_tensor(mask) else None,
        mask_strides=strides,
        is_causal=is_causal.value,
        scale=scale,
        group=group,
    )


def _against(tensors: Sequence[_Tensor], target: ir.Target) -> str | None:
    """Returns the reason against operands and a result, None if there is none."""
    types = [tensor.type for tensor in tensors]
    if any(type.device.type != "cuda" for type in types) or target.arch.startswith("gfx"):
        return "it is not on a CUDA device of NVIDIA"
    if any(len(type.sizes) != 4 for type in types):
        return "its operands do not have four dimensions"
    dtype = types[0].dtype
    if dtype not in _DTYPES or any(type.dtype is not dtype for type in types):
        return f"its element type is {dtype.value}"
    q, k, v, out = (type.sizes for type in types)
    if not (0 < _number(q[3]) <= _MAX_WIDTH and 0 < _number(v[3]) <= _MAX_WIDTH):
        return f"its heads are not 1 to {_MAX_WIDTH} elements wide"
    pairs = (q[0], k[0]), (k[0], v[0]), (k[1], v[1]), (k[2], v[2]), (q[3], k[3])
    if not all(prove_eq(a, b) for a, b in (*pairs, *zip(out, (q[0], q[1], q[2], v[3]), strict=True))):
        return "sizes of its operands are not known to agree"
    return None


def _scale(scale: ir.Arg, width: Expr) -> float | None:
    """Returns the factor of the scores; None if it is not a constant."""
    match scale:
        case None:
            return 1 / math.sqrt(_number(width))
        case Expr(constant=int() | float() as number):
            return float(number)
        case _:
            return None


def _group(heads: Expr, kv_heads: Expr) -> int | None:
    """Returns how many heads of the query share a head of the key; None if that is unknown."""
    if prove_eq(heads, kv_heads):
        return 1
    all_heads, groups = _number(heads), _number(kv_heads)
    return all_heads // groups if all_heads and groups and not all_heads % groups else None

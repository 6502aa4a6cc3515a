"""Operators with an out variant that writes its one result into a given tensor without allocating another.

The core does not import torch: `python -m tools.out_variants` measures the variants on the samples of torch's
operator database and prints the table, which a test compares with the installed torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wrapper_ir import ir

_ROWS = """
    _chunk_cat _log_softmax _softmax _upsample_nearest_exact1d abs add.Tensor addbmm addcdiv addcmul addmm
    addmv addr all:all_out all.dim any:all_out any.dim atan2 avg_pool2d avg_pool3d baddbmm
    bitwise_and.Tensor:Tensor_out bitwise_left_shift.Tensor:Tensor_out bitwise_not
    bitwise_or.Tensor:Tensor_out bitwise_right_shift.Tensor:Tensor_out bitwise_xor.Tensor:Tensor_out bmm cat
    ceil clamp clamp.Tensor:Tensor_out clamp_max.Tensor:Tensor_out clamp_min clamp_min.Tensor:Tensor_out
    complex copysign.Tensor cumprod cumsum div.Tensor div.Tensor_mode:out_mode elu eq.Scalar:Scalar_out
    eq.Tensor:Tensor_out floor floor_divide fmax fmin fmod.Tensor:Tensor_out frac gather gcd
    ge.Tensor:Tensor_out gelu glu gt.Tensor:Tensor_out hardshrink hardsigmoid hardswish hardtanh heaviside
    huber_loss hypot i0 igamma igammac index_copy index_reduce index_select isneginf
    isposinf lcm ldexp.Tensor le.Scalar:Scalar_out le.Tensor:Tensor_out leaky_relu lerp.Scalar:Scalar_out
    linalg_cross linalg_householder_product linalg_ldl_solve linalg_lu_solve linalg_vector_norm logaddexp
    logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor logit lt.Scalar:Scalar_out
    lt.Tensor:Tensor_out max_unpool2d max_unpool3d maximum mean.dim minimum mish mm mul.Tensor mv nan_to_num
    ne.Scalar:Scalar_out ne.Tensor:Tensor_out neg nextafter norm.ScalarOpt_dim ormqr polar polygamma
    pow.Tensor_Scalar:Tensor_Scalar_out pow.Tensor_Tensor:Tensor_Tensor_out prod.dim_int:int_out reciprocal
    reflection_pad1d remainder.Scalar:Scalar_out remainder.Tensor:Tensor_out renorm replication_pad1d
    replication_pad2d round round.decimals:decimals_out rsqrt scatter.reduce:reduce_out scatter.src:src_out
    scatter_add scatter_reduce.two:two_out sgn sign signbit silu softplus softshrink
    special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
    special_chebyshev_polynomial_w special_hermite_polynomial_h special_hermite_polynomial_he special_i0e
    special_i1 special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p
    special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
    special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_xlog1py
    special_zeta sqrt stack std.correction:correction_out sub.Tensor sum.dim_IntList:IntList_out take
    threshold tril triu trunc upsample_bicubic2d upsample_linear1d upsample_nearest1d upsample_trilinear3d
    var.correction:correction_out where.self:self_out xlogy.Tensor:OutTensor
"""


def _variant(row: str) -> tuple[str, str]:
    name, _, overload = row.partition(":")
    return f"aten::{name}", f"aten::{name.partition('.')[0]}.{overload or 'out'}"


OUT_VARIANTS: Mapping[str, str] = MappingProxyType(dict(map(_variant, _ROWS.split())))
"""Out variants by operator; apart from `out`, both have the same arguments."""


_NATIVE_ROWS = """
    _int_mm addbmm addmm addmv baddbmm bmm convolution dot mm mv scatter.src:src_out vdot
"""
NATIVE_VARIANTS: Mapping[str, str] = MappingProxyType(dict(map(_variant, _NATIVE_ROWS.split())))
"""Out variants of the native runtime, which writes into the given tensor. torch computes `convolution.out` in
other memory, and copies it."""


def out_variant(extern: ir.ExternDef, variants: Mapping[str, str] = OUT_VARIANTS) -> ir.ExternDef | None:
    """Returns the declaration of an out variant; None if it is missing or the operator has effects."""
    name = variants.get(extern.name)
    if name is None or extern.tags or extern.symmetric:
        return None
    args, _, _ = extern.schema[extern.schema.index("(") + 1 :].rpartition(") ->")
    before = f"{args}, " if "*, " in args else f"{args}, *, "
    return ir.ExternDef(schema=f"{name}({before}Tensor(a!) out) -> Tensor(a!)")

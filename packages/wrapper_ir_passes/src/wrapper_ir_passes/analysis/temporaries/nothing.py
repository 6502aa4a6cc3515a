"""Operators that allocate only their results on CPUs if all operands have one element type.

`python -m tools.operator_temporaries` measures them on the samples of torch's operator database. Elementwise
operators copy operands of other types.
"""

from __future__ import annotations

_ROWS = """
    _conj _conj_physical _fft_c2c _to_copy _unsafe_view abs add.Scalar add.Tensor add_.Tensor addcdiv
    addcmul angle as_strided asin asinh atan atan2 atanh bernoulli_.float bitwise_and.Tensor
    bitwise_and_.Tensor bitwise_left_shift.Tensor bitwise_or.Tensor bitwise_or_.Tensor
    bitwise_right_shift.Tensor bitwise_xor.Tensor cauchy_ ceil clamp.Tensor clamp_max.Tensor
    clamp_min.Tensor clone complex constant_pad_nd copy_ copysign.Tensor deg2rad diag_embed diagonal_copy
    diagonal_scatter div.Tensor div.Tensor_mode div_.Scalar empty_like eq.Tensor erf erfinv expand
    expand_copy expm1 exponential_ flip floor floor_divide fmax fmin fmod.Tensor frac gcd ge.Tensor gelu
    geometric_ gt.Tensor hardswish heaviside hypot igamma igammac isnan isneginf isposinf lcm le.Tensor
    leaky_relu log1p log_normal_ logaddexp logical_and logical_or logical_xor logit lt.Tensor maximum
    minimum mul.Scalar mul.Tensor ne.Scalar ne.Tensor neg new_empty new_full nextafter nonzero normal_ ones
    permute polar pow.Tensor_Tensor rad2deg randint randint.low reciprocal relu remainder.Scalar
    remainder.Tensor roll rot90 round rsub.Tensor select.int select_scatter sgn sign signbit sin sinh
    slice.Tensor slice_scatter special_chebyshev_polynomial_t special_chebyshev_polynomial_u
    special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_hermite_polynomial_h
    special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p
    special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
    special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_xlog1py
    special_zeta split.Tensor split_with_sizes split_with_sizes_copy sqrt squeeze.dim squeeze_.dim
    sub.Tensor t tan tanh threshold transpose.int transpose_ tril triu trunc unbind.int unbind_copy.int
    unfold unfold_copy uniform_ unsafe_split.Tensor unsqueeze unsqueeze_copy view view_as_real view_copy
    where.self xlogy.Tensor zero_ zeros
"""

NOTHING = frozenset(f"aten::{name}" for name in _ROWS.split())
"""The names of these operators."""

CONVERTING = frozenset(("aten::copy_", "aten::_to_copy"))
"""Operators of `NOTHING` that convert elements as they write them, so operands may have several element
types."""

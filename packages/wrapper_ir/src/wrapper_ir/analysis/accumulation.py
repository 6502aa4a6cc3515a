"""Operators that may be given as `out=` what they add to."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.expr import Int, expand, mul

_ACCUMULATING = frozenset({"aten::addmm.out", "aten::baddbmm.out"})
"""Matmuls whose result is their first argument's elements and what is added to them: torch's `addmm_` is this with both the same."""


def accumulated(op: ir.CallExtern) -> tuple[ir.Value[ir.TensorType], ir.Value[ir.TensorType]] | None:
    """The out argument of an accumulating matmul and the tensor that it adds to, where both may be the same elements: of one layout
    that has no element twice, and the second one no factor besides."""
    if op.target not in _ACCUMULATING or not op.args:
        return None
    added, out = op.args[0], dict(op.kwargs).get("out")
    if (
        not isinstance(added, ir.Value)
        or not isinstance(out, ir.Value)
        or not ir.is_tensor(added)
        or not ir.is_tensor(out)
    ):
        return None
    a, b = added.type, out.type
    is_alike = (a.dtype, a.sizes, a.strides, a.device) == (b.dtype, b.sizes, b.strides, b.device)
    is_dense = expand(ir.extent_bytes(a)) == expand(mul(ir.numel(a.sizes), Int(a.dtype.itemsize)))
    factors = [v for v in ir.operands(op) if v is added or v is out]
    return (out, added) if is_alike and is_dense and len(factors) == 2 else None

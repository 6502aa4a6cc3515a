"""Operators whose `out=` argument may be the tensor that they add to."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.expr import Int, expand, mul

_ACCUMULATING = frozenset({"aten::addmm.out", "aten::baddbmm.out"})
"""Matmuls that add a product to the elements of their first argument; torch's `addmm_` is one whose out
argument is the first argument."""


def accumulated(op: ir.CallExtern) -> tuple[ir.Value[ir.TensorType], ir.Value[ir.TensorType]] | None:
    """The out argument of an accumulating matmul and the tensor that it adds to, if both may be the same
    elements.

    They may be if both have one dense layout and neither is also a factor of the product.
    """
    if op.target not in _ACCUMULATING or not op.args:
        return None
    added, out = op.args[0], dict(op.kwargs).get("out")
    if not ir.is_tensor(added) or not ir.is_tensor(out):
        return None
    a, b = added.type, out.type
    is_alike = (a.dtype, a.sizes, a.strides, a.device) == (b.dtype, b.sizes, b.strides, b.device)
    is_dense = expand(ir.extent_bytes(a)) == expand(mul(ir.numel(a.sizes), Int(a.dtype.itemsize)))
    factors = [v for v in ir.operands(op) if v is added or v is out]
    return (out, added) if is_alike and is_dense and len(factors) == 2 else None

"""Expression nodes. Constructors never simplify: they build exactly what they are given.

Captured assertions and the text parser rely on that; everybody else uses the functions of `build` and `logic`. What an
operator means stands in its row.
"""

from __future__ import annotations

from wrapper_ir.expr.base import Apply, Expr
from wrapper_ir.expr.leaves import Bool, Float, Int, Item, OffsetOf, SizeOf, StrideOf, Sym

__all__ = ["NODE_TYPES", "Node"]

Node = Int | Float | Bool | Sym | SizeOf | StrideOf | OffsetOf | Item | Apply
"""The closed union of nodes; tables over nodes are tested against it."""

NODE_TYPES: tuple[type[Expr], ...] = (Int, Float, Bool, Sym, SizeOf, StrideOf, OffsetOf, Item, Apply)
"""The members of `Node`, in its order."""

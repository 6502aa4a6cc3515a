"""Conversions between expressions and sympy objects, and floors without `floor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from wrapper_ir.expr.base import Expr, ExprLike, SymKind
from wrapper_ir.expr.build import as_expr
from wrapper_ir.expr.sympy_bridge.reader import FromSympy, fraction
from wrapper_ir.expr.sympy_bridge.writer import ToSympy

__all__ = ["from_sympy", "replace_floor", "to_sympy"]

SympyExpr: TypeAlias = Any
"""Any sympy object; sympy publishes no types."""


def to_sympy(e: ExprLike, leaves: dict[str, Expr] | None = None) -> SympyExpr:
    """The expression in sympy: int symbols are integer symbols, float ones real.

    Atoms become symbols named by their text; `leaves`, if given, collects them for the way back.
    """
    return ToSympy({} if leaves is None else leaves).convert(as_expr(e))


def from_sympy(
    expr: SympyExpr,
    kind_of: Callable[[SympyExpr], SymKind] | None = None,
    leaves: Mapping[str, Expr] | None = None,
) -> Expr:
    """The expression that a sympy object (or a Python number) stands for.

    `kind_of` gives the kind of a sympy symbol (default: by its assumptions, integer or else float), and
    `leaves` the expressions for symbols of other names than identifiers. Arithmetic is simplified on the
    way; comparisons and logic stay as they are, so that a captured assertion cannot fold away. A rational
    factor among ints is an exact division. Raises ExpressionError WIR406, naming the class, for what has
    no counterpart.
    """
    return FromSympy(kind_of, leaves or {}).convert(expr)


def replace_floor(
    expr: SympyExpr, floor_div: Callable[[SympyExpr, SympyExpr], SympyExpr] | None = None
) -> SympyExpr:
    """A sympy expression in which every `floor(a/b)` is `FloorDiv(a, b)`, and `ceiling(a/b)` likewise.

    No `floor` or `ceiling` remains. `floor_div` makes the quotient; by default a function named FloorDiv.
    """
    import sympy

    make = floor_div or sympy.Function("FloorDiv", integer=True)

    def floor(argument: SympyExpr) -> SympyExpr:
        return make(*fraction(argument))

    def ceiling(argument: SympyExpr) -> SympyExpr:
        numerator, denominator = fraction(argument)
        return -make(-numerator, denominator)

    return expr.replace(sympy.floor, floor).replace(sympy.ceiling, ceiling)

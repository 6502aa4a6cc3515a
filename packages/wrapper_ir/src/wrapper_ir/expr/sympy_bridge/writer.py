"""Expressions to sympy objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from wrapper_ir.expr import operators as ops
from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.leaves import Bool, Float, Int, Sym
from wrapper_ir.expr.operator_row import Apply, Operator
from wrapper_ir.expr.text import print_expr

__all__ = ["ToSympy"]

SympyExpr: TypeAlias = Any
"""Any sympy object; sympy publishes no types."""

_OWN = frozenset((ops.ADD, ops.MUL, ops.MIN, ops.MAX, ops.POW, ops.MOD, ops.ABS))
"""Operators that are classes of sympy's own, not functions that are named after torch's."""


class ToSympy:
    """One conversion; `leaves` collects what became a symbol, `opaque` chooses nodes that have to become one.

    `opaque` returns the expression that the symbol stands for, or None to look into the node.
    """

    def __init__(self, leaves: dict[str, Expr], opaque: Callable[[Expr], Expr | None] | None = None) -> None:
        self._leaves = leaves
        self._opaque = opaque

    def convert(self, e: Expr) -> SympyExpr:
        """The sympy object for `e`; of Boolean type if `e` is a bool."""
        import sympy

        hidden = self._opaque(e) if self._opaque else None
        if hidden is not None:
            return self._leaf(hidden)
        match e:
            case Int(value):
                return sympy.Integer(value)
            case Float(value):
                return sympy.Float(value)
            case Bool(value):
                return sympy.true if value else sympy.false
            case Sym(name, kind):
                return _symbol(name, kind)
            case Apply(op, (lhs, rhs)) if op in ops.COMPARISONS:
                return sympy.Rel(self.number(lhs), self.number(rhs), op.name)
            case Apply(ops.AND | ops.OR | ops.NOT as op, args):
                return getattr(sympy, op.sympy[0])(*map(self.truth, args))  # sympy's own classes
            case Apply(ops.WHERE, (cond, lhs, rhs)):
                side = self.truth if e.kind is SymKind.BOOL else self.number
                make = sympy.ITE if e.kind is SymKind.BOOL else _piecewise
                return make(self.truth(cond), side(lhs), side(rhs))
            case Apply(ops.TO_BOOL, (arg,)):
                return self.truth(arg)
            case Apply(op, _):
                return self._arithmetic(op, e)
            case _:
                return self._leaf(e)

    def number(self, e: Expr) -> SympyExpr:
        """As `convert`, with bools as 0 and 1."""
        found = self.convert(e)
        return _piecewise(found, 1, 0) if e.kind is SymKind.BOOL else found

    def truth(self, e: Expr) -> SympyExpr:
        """As `convert`, with numbers compared to 0."""
        import sympy

        found = self.convert(e)
        return found if e.kind is SymKind.BOOL else sympy.Ne(found, 0)

    def _leaf(self, e: Expr) -> SympyExpr:
        name = print_expr(e)
        self._leaves[name] = e
        return _symbol(name, e.kind)

    def _arithmetic(self, op: Operator, e: Expr) -> SympyExpr:
        import sympy

        args = [self.number(arg) for arg in e.args]
        if op in _OWN:
            return getattr(sympy, op.sympy[0])(*args)  # the row says the class
        if op is ops.FLOORDIV:
            return sympy.floor(args[0] / args[1])
        if op is ops.CEILDIV:
            return sympy.ceiling(args[0] / args[1])
        return sympy.Function(op.sympy[0], **_assumptions(e.kind))(*args)


def _symbol(name: str, kind: SymKind) -> SympyExpr:
    import sympy

    return sympy.Symbol(name, **_assumptions(kind))


def _assumptions(kind: SymKind) -> Mapping[str, bool]:
    match kind:
        case SymKind.INT:
            return {"integer": True}
        case SymKind.FLOAT:
            return {"real": True}
        case SymKind.BOOL:
            return {}


def _piecewise(cond: SympyExpr, lhs: SympyExpr, rhs: SympyExpr) -> SympyExpr:
    import sympy

    return sympy.Piecewise((lhs, cond), (rhs, True))

"""Conversion of expressions to sympy objects."""

from __future__ import annotations

from collections.abc import Callable

from wrapper_ir.expr import operators as ops
from wrapper_ir.expr.base import Apply, Expr, ExprLike, Operator, SymKind
from wrapper_ir.expr.build import as_expr
from wrapper_ir.expr.leaves import Bool, Float, Int, Sym
from wrapper_ir.expr.sympy_bridge.reader import SympyExpr
from wrapper_ir.expr.text import print_expr

_LOGIC = (ops.AND, ops.OR, ops.NOT)


def to_sympy(e: ExprLike, leaves: dict[str, Expr] | None = None) -> SympyExpr:
    """Converts an expression to sympy: int symbols become integer symbols, float symbols real ones.

    Atoms become symbols named by their text; `leaves` collects them for the conversion back.
    """
    return ToSympy({} if leaves is None else leaves).convert(as_expr(e))


class ToSympy:
    """One conversion. `leaves` collects the expressions that became symbols.

    `opaque` selects further ones: it returns the expression to represent by a symbol, or None to convert the
    node.
    """

    def __init__(self, leaves: dict[str, Expr], opaque: Callable[[Expr], Expr | None] | None = None) -> None:
        self._leaves = leaves
        self._opaque = opaque

    def convert(self, e: Expr) -> SympyExpr:
        """Returns the sympy object for `e`, of Boolean type if `e` is a bool."""
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
            case Apply(ops.WHERE, (cond, lhs, rhs)):
                side = self.truth if e.kind is SymKind.BOOL else self.number
                make = sympy.ITE if e.kind is SymKind.BOOL else _piecewise
                return make(self.truth(cond), side(lhs), side(rhs))
            case Apply(ops.TO_BOOL, (arg,)):
                return self.truth(arg)
            case Apply(ops.FLOORDIV, (lhs, rhs)):
                return sympy.floor(self.number(lhs) / self.number(rhs))
            case Apply(ops.CEILDIV, (lhs, rhs)):
                return sympy.ceiling(self.number(lhs) / self.number(rhs))
            case Apply(op, args):
                side = self.truth if op in _LOGIC else self.number
                return _class_of(op, e.kind)(*map(side, args))
            case _:
                return self._leaf(e)

    def number(self, e: Expr) -> SympyExpr:
        """Converts `e` to a number; bools become 0 and 1."""
        converted = self.convert(e)
        return _piecewise(converted, 1, 0) if e.kind is SymKind.BOOL else converted

    def truth(self, e: Expr) -> SympyExpr:
        """Converts `e` to a truth value; numbers are compared with 0."""
        import sympy

        converted = self.convert(e)
        return converted if e.kind is SymKind.BOOL else sympy.Ne(converted, 0)

    def _leaf(self, e: Expr) -> SympyExpr:
        name = print_expr(e)
        self._leaves[name] = e
        return _symbol(name, e.kind)


def _class_of(op: Operator, kind: SymKind) -> SympyExpr:
    """Returns sympy's class if the operator's row names one, otherwise a function with torch's name."""
    import sympy

    return getattr(sympy, op.sympy[0], None) or sympy.Function(op.sympy[0], **_ASSUMPTIONS[kind])


def _symbol(name: str, kind: SymKind) -> SympyExpr:
    import sympy

    return sympy.Symbol(name, **_ASSUMPTIONS[kind])


_ASSUMPTIONS = {SymKind.INT: {"integer": True}, SymKind.FLOAT: {"real": True}, SymKind.BOOL: {}}


def _piecewise(cond: SympyExpr, lhs: SympyExpr, rhs: SympyExpr) -> SympyExpr:
    import sympy

    return sympy.Piecewise((lhs, cond), (rhs, True))

"""Expressions to sympy objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.nodes import (
    Add,
    And,
    Bool,
    CeilDiv,
    Cmp,
    CmpOp,
    Convert,
    ConvertOp,
    Float,
    FloorDiv,
    Int,
    Item,
    MathFn,
    MathOp,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    OffsetOf,
    Or,
    Pow,
    SizeOf,
    StrideOf,
    Sym,
    TrueDiv,
    Where,
)
from wrapper_ir.expr.text import print_expr

__all__ = ["ToSympy"]

SympyExpr: TypeAlias = Any
"""Any sympy object; sympy publishes no types."""

_BITWISE = {
    MathOp.BIT_AND: "BitwiseFn_bitwise_and",
    MathOp.BIT_OR: "BitwiseFn_bitwise_or",
    MathOp.BIT_XOR: "BitwiseFn_bitwise_xor",
}
_CONVERSIONS = {
    ConvertOp.TO_INT: "TruncToInt",
    ConvertOp.FLOOR: "FloorToInt",
    ConvertOp.CEIL: "CeilToInt",
    ConvertOp.ROUND: "RoundToInt",
    ConvertOp.TO_FLOAT: "ToFloat",
}


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
            case SizeOf() | StrideOf() | OffsetOf() | Item():
                return self._leaf(e)
            case Cmp(op, lhs, rhs):
                return self._relation(op, lhs, rhs)
            case And(args) | Or(args):
                make = sympy.And if isinstance(e, And) else sympy.Or
                return make(*map(self.truth, args))
            case Not(arg):
                return sympy.Not(self.truth(arg))
            case Where(cond, lhs, rhs):
                side = self.truth if e.kind is SymKind.BOOL else self.number
                make = sympy.ITE if e.kind is SymKind.BOOL else _piecewise
                return make(self.truth(cond), side(lhs), side(rhs))
            case Convert(ConvertOp.TO_BOOL, arg):
                return self.truth(arg)
            case _:
                return self._arithmetic(e)

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

    def _relation(self, op: CmpOp, lhs: Expr, rhs: Expr) -> SympyExpr:
        import sympy

        return sympy.Rel(self.number(lhs), self.number(rhs), op.value)

    def _arithmetic(self, e: Expr) -> SympyExpr:
        import sympy

        args = [self.number(child) for child in e.children]
        match e:
            case Add() | Mul() | Min() | Max() | Pow() | Mod():
                return getattr(sympy, type(e).__name__)(*args)  # sympy's classes have the names of ours
            case FloorDiv():
                return sympy.floor(args[0] / args[1])
            case CeilDiv():
                return sympy.ceiling(args[0] / args[1])
            case TrueDiv():
                return sympy.Function("FloatTrueDiv", real=True)(*args)
            case Convert(op, _):
                return sympy.Function(_CONVERSIONS[op], **_assumptions(e.kind))(*args)
            case MathFn(MathOp.ABS, _):
                return sympy.Abs(*args)
            case MathFn(MathOp.ROUND_TO, _):
                return sympy.Function("RoundDecimal", real=True)(*args)
            case MathFn(fn, _):
                name = _BITWISE.get(fn, f"OpaqueUnaryFn_{fn.value}")
                return sympy.Function(name, **_assumptions(e.kind))(*args)
            case _:
                raise AssertionError(
                    type(e).__name__
                )  # the tests compare these cases with the union of nodes


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

"""Expression nodes. Constructors here never simplify: they build exactly what they are given.

Captured assertions and the text parser rely on that; everybody else uses the functions of `build`.
"""

from __future__ import annotations

from typing import Self

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, SymKind, intern
from wrapper_ir.expr.leaves import Bool, Float, Int, Item, OffsetOf, SizeOf, StrideOf, Sym
from wrapper_ir.expr.operators import BITWISE, CmpOp, ConvertOp, MathOp

__all__ = [
    "NODE_TYPES",
    "Add",
    "And",
    "Bool",
    "CeilDiv",
    "Cmp",
    "CmpOp",
    "Convert",
    "ConvertOp",
    "Float",
    "FloorDiv",
    "Int",
    "Item",
    "MathFn",
    "MathOp",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Node",
    "Not",
    "OffsetOf",
    "Or",
    "Pow",
    "SizeOf",
    "StrideOf",
    "Sym",
    "TrueDiv",
    "Where",
]


def _numeric_kind(*operands: Expr) -> SymKind:
    return SymKind.FLOAT if any(o.kind is SymKind.FLOAT for o in operands) else SymKind.INT


def _join_kind(*operands: Expr) -> SymKind:
    kinds = {operand.kind for operand in operands}
    return kinds.pop() if len(kinds) == 1 else _numeric_kind(*operands)


class _Nary(Expr):
    __slots__ = ("args",)
    __match_args__ = ("args",)
    args: tuple[Expr, ...]

    def __new__(cls, args: tuple[Expr, ...]) -> Self:
        if len(args) < 2:
            raise ExpressionError("WIR401", f"{cls.__name__} needs at least two operands, got {len(args)}")
        return intern(cls, (cls, args), (args,))

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args


class _Binary(Expr):
    __slots__ = ("lhs", "rhs")
    __match_args__ = ("lhs", "rhs")
    lhs: Expr
    rhs: Expr

    def __new__(cls, lhs: Expr, rhs: Expr) -> Self:
        return intern(cls, (cls, lhs, rhs), (lhs, rhs))

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.lhs, self.rhs)


class Add(_Nary):
    """A sum. Text: `a + b - c`."""

    __slots__ = ()

    def _infer_kind(self) -> SymKind:
        return _numeric_kind(*self.args)


class Mul(_Nary):
    """A product. Text: `2*a*b`."""

    __slots__ = ()

    def _infer_kind(self) -> SymKind:
        return _numeric_kind(*self.args)


class Min(_Nary):
    """The least operand. Text: `min(a, b)`."""

    __slots__ = ()

    def _infer_kind(self) -> SymKind:
        return _join_kind(*self.args)


class Max(_Nary):
    """The greatest operand. Text: `max(a, b)`."""

    __slots__ = ()

    def _infer_kind(self) -> SymKind:
        return _join_kind(*self.args)


class And(_Nary):
    """True where all operands are, evaluated left to right until one is false. Text: `a and b`."""

    __slots__ = ()

    @property
    def kind(self) -> SymKind:
        return SymKind.BOOL


class Or(_Nary):
    """True where any operand is, evaluated left to right until one is true. Text: `a or b`."""

    __slots__ = ()

    @property
    def kind(self) -> SymKind:
        return SymKind.BOOL


class FloorDiv(_Binary):
    """The quotient rounded towards minus infinity. Text: `a//b`."""

    __slots__ = ()

    def _infer_kind(self) -> SymKind:
        return _numeric_kind(self.lhs, self.rhs)


class CeilDiv(_Binary):
    """The quotient rounded towards plus infinity. Text: `ceildiv(a, b)`."""

    __slots__ = ()

    def _infer_kind(self) -> SymKind:
        return _numeric_kind(self.lhs, self.rhs)


class Mod(_Binary):
    """`a - b*(a//b)`: the sign is the divisor's, as in Python. Text: `a % b`."""

    __slots__ = ()

    def _infer_kind(self) -> SymKind:
        return _numeric_kind(self.lhs, self.rhs)


class TrueDiv(_Binary):
    """The quotient as a float, correctly rounded for ints of any size. Text: `a / b`."""

    __slots__ = ()

    @property
    def kind(self) -> SymKind:
        return SymKind.FLOAT


class Pow(Expr):
    """A power; an int raised to an int must have an exponent >= 0. Text: `a**b`."""

    __slots__ = ("base", "exp")
    __match_args__ = ("base", "exp")
    base: Expr
    exp: Expr

    def __new__(cls, base: Expr, exp: Expr) -> Self:
        return intern(cls, (cls, base, exp), (base, exp))

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.base, self.exp)

    def _infer_kind(self) -> SymKind:
        return _numeric_kind(self.base, self.exp)


class Where(Expr):
    """`lhs` where `cond` holds, else `rhs`; only the chosen one is evaluated. Text: `where(c, a, b)`."""

    __slots__ = ("cond", "lhs", "rhs")
    __match_args__ = ("cond", "lhs", "rhs")
    cond: Expr
    lhs: Expr
    rhs: Expr

    def __new__(cls, cond: Expr, lhs: Expr, rhs: Expr) -> Self:
        return intern(cls, (cls, cond, lhs, rhs), (cond, lhs, rhs))

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.cond, self.lhs, self.rhs)

    def _infer_kind(self) -> SymKind:
        return _join_kind(self.lhs, self.rhs)


class Cmp(Expr):
    """A comparison. Text: `a <= b`."""

    __slots__ = ("lhs", "op", "rhs")
    __match_args__ = ("op", "lhs", "rhs")
    op: CmpOp
    lhs: Expr
    rhs: Expr

    def __new__(cls, op: CmpOp, lhs: Expr, rhs: Expr) -> Self:
        return intern(cls, (cls, op, lhs, rhs), (op, lhs, rhs))

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.lhs, self.rhs)

    @property
    def kind(self) -> SymKind:
        return SymKind.BOOL


class Not(Expr):
    """The negation. Text: `not a`."""

    __slots__ = ("arg",)
    __match_args__ = ("arg",)
    arg: Expr

    def __new__(cls, arg: Expr) -> Self:
        return intern(cls, (cls, arg), (arg,))

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.arg,)

    @property
    def kind(self) -> SymKind:
        return SymKind.BOOL


class Convert(Expr):
    """A conversion between kinds. Text: `to_int(a)`."""

    __slots__ = ("arg", "op")
    __match_args__ = ("op", "arg")
    op: ConvertOp
    arg: Expr

    def __new__(cls, op: ConvertOp, arg: Expr) -> Self:
        return intern(cls, (cls, op, arg), (op, arg))

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.arg,)

    @property
    def kind(self) -> SymKind:
        match self.op:
            case ConvertOp.TO_FLOAT:
                return SymKind.FLOAT
            case ConvertOp.TO_BOOL:
                return SymKind.BOOL
            case ConvertOp.TO_INT | ConvertOp.FLOOR | ConvertOp.CEIL | ConvertOp.ROUND:
                return SymKind.INT


class MathFn(Expr):
    """A mathematical function. Text: `sqrt(a)`, `round_to(a, 2)`, `bit_and(a, b)`."""

    __slots__ = ("args", "fn")
    __match_args__ = ("fn", "args")
    fn: MathOp
    args: tuple[Expr, ...]

    def __new__(cls, fn: MathOp, args: tuple[Expr, ...]) -> Self:
        if len(args) != fn.arity:
            raise ExpressionError("WIR401", f"{fn.value} takes {fn.arity} arguments, got {len(args)}")
        return intern(cls, (cls, fn, args), (fn, args))

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    def _infer_kind(self) -> SymKind:
        if self.fn is MathOp.ABS:
            return _numeric_kind(*self.args)
        return SymKind.INT if self.fn in BITWISE else SymKind.FLOAT


Node = (
    Int | Float | Bool | Sym | Add | Mul | FloorDiv | CeilDiv | Mod | Min | Max | Where | TrueDiv | Pow
    | Cmp | And | Or | Not | Convert | MathFn | SizeOf | StrideOf | OffsetOf | Item
)  # fmt: skip
"""The closed union of nodes; tables over nodes are tested against it."""

NODE_TYPES: tuple[type[Expr], ...] = (
    Int, Float, Bool, Sym, Add, Mul, FloorDiv, CeilDiv, Mod, Min, Max, Where, TrueDiv, Pow,
    Cmp, And, Or, Not, Convert, MathFn, SizeOf, StrideOf, OffsetOf, Item,
)  # fmt: skip
"""The members of `Node`, in its order."""

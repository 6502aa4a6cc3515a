"""Expression nodes. Constructors here never simplify: they build exactly what they are given.

Captured assertions and the text parser rely on that; everybody else uses the functions of `build`.
"""

from __future__ import annotations

import enum
import keyword
from typing import TYPE_CHECKING, Self

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, SymKind, intern

if TYPE_CHECKING:
    from wrapper_ir.values import Value

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


class CmpOp(enum.Enum):
    """Comparison operators; the value is the text form."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class ConvertOp(enum.Enum):
    """Conversions between kinds. `to_int` truncates; `round` goes to the nearest, halves to even."""

    TO_INT = "to_int"
    TO_FLOAT = "to_float"
    TO_BOOL = "to_bool"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"


class MathOp(enum.Enum):
    """Functions of floats (`abs` keeps its kind), and the bitwise operations on ints."""

    ABS = "abs"
    SQRT = "sqrt"
    EXP = "exp"
    LOG = "log"
    LOG2 = "log2"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    ASINH = "asinh"
    ROUND_TO = "round_to"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"

    @property
    def arity(self) -> int:
        """Number of arguments."""
        return 2 if self in _BINARY_MATH else 1


_BITWISE = frozenset({MathOp.BIT_AND, MathOp.BIT_OR, MathOp.BIT_XOR})
_BINARY_MATH = _BITWISE | {MathOp.ROUND_TO}

RESERVED_NAMES = frozenset(
    {"min", "max", "where", "ceildiv", "size", "stride", "offset", "item", "true", "false", "inf", "nan"}
    | {op.value for op in ConvertOp}
    | {op.value for op in MathOp}
    | set(keyword.kwlist)
)
"""Names that a symbol cannot have, because the text form gives them a meaning."""


_SMALL_LIMIT = 4096
_SMALL_INTS: dict[int, Int] = {}  # keeps the few common constants alive; bounded, so it cannot leak


def _numeric_kind(*operands: Expr) -> SymKind:
    return SymKind.FLOAT if any(o.kind is SymKind.FLOAT for o in operands) else SymKind.INT


def _join_kind(*operands: Expr) -> SymKind:
    kinds = {operand.kind for operand in operands}
    return kinds.pop() if len(kinds) == 1 else _numeric_kind(*operands)


class Int(Expr):
    """An integer constant of any size. Text: `-3`."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: int

    def __new__(cls, value: int) -> Int:  # nothing subclasses it, and the cache holds Int
        small = _SMALL_INTS.get(value)
        if small is not None:
            return small
        value = int(value)
        node = intern(Int, (Int, value), (value,))
        if -_SMALL_LIMIT <= value <= _SMALL_LIMIT:
            _SMALL_INTS[value] = node
        return node

    @property
    def kind(self) -> SymKind:
        return SymKind.INT


class Float(Expr):
    """A float64 constant; all NaNs are one node, `0.0` and `-0.0` are two. Text: `2.0`, `inf`, `nan`."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: float

    def __new__(cls, value: float) -> Self:
        value = float(value)
        return intern(cls, (cls, value.hex()), (value,))

    @property
    def kind(self) -> SymKind:
        return SymKind.FLOAT


class Bool(Expr):
    """A truth constant. Text: `true`, `false`."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: bool

    def __new__(cls, value: bool) -> Self:
        value = bool(value)
        return intern(cls, (cls, value), (value,))

    @property
    def kind(self) -> SymKind:
        return SymKind.BOOL


class Sym(Expr):
    """A symbol of the program. Its kind is part of its identity, not of its text. Text: `s0`."""

    __slots__ = ("kind", "name")
    __match_args__ = ("name", "kind")
    name: str
    kind: SymKind

    def __new__(cls, name: str, kind: SymKind = SymKind.INT) -> Self:
        if not name.isidentifier() or name in RESERVED_NAMES:
            raise ExpressionError(
                "WIR401",
                f"{name!r} cannot name a symbol",
                hint="use an identifier that is no keyword or function",
            )
        return intern(cls, (cls, name, kind), (name, kind))

    @property
    def free_symbols(self) -> frozenset[str]:
        return frozenset((self.name,))


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
        return SymKind.INT if self.fn in _BITWISE else SymKind.FLOAT


class _Atom(Expr):
    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: Value

    @property
    def free_values(self) -> frozenset[Value]:
        return frozenset((self.value,))

    @property
    def kind(self) -> SymKind:
        return SymKind.INT


class _DimAtom(_Atom):
    __slots__ = ("dim",)
    __match_args__ = ("value", "dim")
    dim: int

    def __new__(cls, value: Value, dim: int) -> Self:
        return intern(cls, (cls, value, dim), (value, dim))


class _ValueAtom(_Atom):
    __slots__ = ()

    def __new__(cls, value: Value) -> Self:
        return intern(cls, (cls, value), (value,))


class SizeOf(_DimAtom):
    """A tensor's size in one dimension, in elements, read when the program runs. Text: `size(%x, 0)`."""

    __slots__ = ()


class StrideOf(_DimAtom):
    """A tensor's stride in one dimension, in elements. Text: `stride(%x, 0)`."""

    __slots__ = ()


class OffsetOf(_ValueAtom):
    """A tensor's offset in its storage, in elements. Text: `offset(%x)`."""

    __slots__ = ()


class Item(_ValueAtom):
    """The only element of a tensor, or a scalar value, on the host. Text: `item(%x)`."""

    __slots__ = ()

    @property
    def kind(self) -> SymKind:
        # Imported here because types are made of expressions.
        from wrapper_ir.types import DType, ScalarType, TensorType

        match self.value.type:
            case ScalarType(kind):
                return kind
            case TensorType(DType.BOOL):
                return SymKind.BOOL
            case TensorType(dtype) if dtype.is_floating:
                return SymKind.FLOAT
            case _:
                return SymKind.INT


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

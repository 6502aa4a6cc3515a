"""The operators that nodes are parameterised with, and the names that the text form keeps for itself."""

from __future__ import annotations

import enum
import keyword

__all__ = ["BITWISE", "RESERVED_NAMES", "CmpOp", "ConvertOp", "MathOp"]


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


BITWISE = frozenset({MathOp.BIT_AND, MathOp.BIT_OR, MathOp.BIT_XOR})
_BINARY_MATH = BITWISE | {MathOp.ROUND_TO}

RESERVED_NAMES = frozenset(
    {"min", "max", "where", "ceildiv", "size", "stride", "offset", "item", "true", "false", "inf", "nan"}
    | {op.value for op in ConvertOp}
    | {op.value for op in MathOp}
    | set(keyword.kwlist)
)
"""Names that a symbol cannot have, because the text form gives them a meaning."""

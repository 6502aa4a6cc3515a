"""The operators: one row each, from which everything but the normal form and the proofs follows.

To add one, write its row here, and a smart constructor in `build` or `logic` if it has rules of a normal form.
"""

from __future__ import annotations

import keyword
import math
import operator
from collections.abc import Callable

from wrapper_ir.expr import arithmetic, interval_ops
from wrapper_ir.expr.base import SymKind
from wrapper_ir.expr.interval import Interval
from wrapper_ir.expr.operator_row import MANY, Floats, Level, Number, Operator, Operators, Spelling

__all__ = [
    "ABS", "ADD", "AND", "BIT_AND", "BIT_OR", "BIT_XOR", "CEIL", "CEILDIV", "COMPARISONS", "CONVERSIONS", "EQ", "FLOOR",
    "FLOORDIV", "FUNCTIONS", "GE", "GT", "LE", "LOG", "LT", "MAX", "MIN", "MOD", "MUL", "NE", "NOT", "OPERATORS", "OR",
    "POW", "RESERVED_NAMES", "ROUND", "ROUND_TO", "SQRT", "TO_BOOL", "TO_FLOAT", "TO_INT", "TRUEDIV", "UNARY_FUNCTIONS",
    "WHERE", "by_name",
]  # fmt: skip

_Kinds = tuple[SymKind, ...]


def _numeric(kinds: _Kinds) -> SymKind:
    return SymKind.FLOAT if SymKind.FLOAT in kinds else SymKind.INT


def _join(kinds: _Kinds) -> SymKind:
    return kinds[0] if kinds.count(kinds[0]) == len(kinds) else _numeric(kinds)


def _chosen(kinds: _Kinds) -> SymKind:
    return _join(kinds[1:])


def _int(kinds: _Kinds) -> SymKind:
    return SymKind.INT


def _float(kinds: _Kinds) -> SymKind:
    return SymKind.FLOAT


def _bool(kinds: _Kinds) -> SymKind:
    return SymKind.BOOL


ADD = Operator(
    name="add",
    doc="A sum. Text: `a + b - c`.",
    result=_numeric,
    arity=MANY,
    text=Spelling("{0:product} + {1:product}", Level.SUM),
    python=Spelling("{0:product} + {1:product}", Level.SUM),
    cpp=Spelling("{0:own product} + {1:own product}", Level.SUM),
    evaluate=arithmetic.add,
    bounds=interval_ops.add,
    floats=Floats.ALWAYS,
    sympy=("Add",),
    order="Add(",
)
MUL = Operator(
    name="mul",
    doc="A product. Text: `2*a*b`.",
    result=_numeric,
    arity=MANY,
    text=Spelling("{0:product}*{1:sign}", Level.PRODUCT),
    python=Spelling("{0:product} * {1:sign}", Level.PRODUCT),
    cpp=Spelling("{0:own product} * {1:own sign}", Level.PRODUCT),
    evaluate=arithmetic.mul,
    bounds=interval_ops.mul,
    floats=Floats.BOUNDED,
    sympy=("Mul",),
    order="Mul(",
)
FLOORDIV = Operator(
    name="floordiv",
    doc="The quotient rounded towards minus infinity. Text: `a//b`.",
    result=_numeric,
    text=Spelling("{0:product}//{1:sign}", Level.PRODUCT),
    python=Spelling("{0:product} // {1:sign}", Level.PRODUCT),
    cpp=Spelling("wir_floordiv({0:own}, {1:own})"),
    evaluate=operator.floordiv,
    bounds=Interval.floordiv,
    sympy=("FloorDiv", "CleanDiv"),
    order="FloorDiv(",
)
CEILDIV = Operator(
    name="ceildiv",
    doc="The quotient rounded towards plus infinity. Text: `ceildiv(a, b)`.",
    result=_numeric,
    text=Spelling("ceildiv({*})"),
    python=Spelling("-({0:product} // -{1:power})", Level.SIGN),
    cpp=Spelling("wir_ceildiv({0:own}, {1:own})"),
    evaluate=lambda a, b: -(a // -b),
    bounds=Interval.ceildiv,
    sympy=("CeilDiv",),
    order="CeilDiv(",
)
MOD = Operator(
    name="mod",
    doc="`a - b*(a//b)`: the sign is the divisor's, as in Python. Text: `a % b`.",
    result=_numeric,
    text=Spelling("{0:product} % {1:sign}", Level.PRODUCT),
    python=Spelling("{0:product} % {1:sign}", Level.PRODUCT),
    cpp=Spelling("wir_mod({0:own}, {1:own})"),
    evaluate=operator.mod,
    bounds=Interval.mod,
    sympy=("Mod", "PythonMod"),
    order="Mod(",
)
TRUEDIV = Operator(
    name="truediv",
    doc="The quotient as a float, correctly rounded for ints of any size. Text: `a / b`.",
    result=_float,
    text=Spelling("{0:product} / {1:sign}", Level.PRODUCT),
    python=Spelling("{0:product} / {1:sign}", Level.PRODUCT),
    cpp=Spelling("{0:float product} / {1:float sign}", Level.PRODUCT),
    evaluate=operator.truediv,
    bounds=interval_ops.truediv,
    floats=Floats.BOUNDED,
    sympy=("FloatTrueDiv", "IntTrueDiv"),
    order="TrueDiv(",
)
POW = Operator(
    name="pow",
    doc="A power; an int raised to an int must have an exponent >= 0. Text: `a**b`.",
    result=_numeric,
    text=Spelling("{0:atom}**{1:sign}", Level.POWER),
    python=Spelling("{0:atom} ** {1:sign}", Level.POWER),
    cpp=Spelling("wir_pow({0:own}, {1:own})"),
    evaluate=arithmetic.power,
    bounds=Interval.power,
    sympy=("Pow", "PowByNatural"),
    order="Pow(",
)


def _extremum(
    name: str, word: str, meaning: Callable[..., Number], bounds: Callable[..., Interval]
) -> Operator:
    return Operator(
        name=name,
        doc=f"The {word} operand. Text: `{name}(a, b)`.",
        result=_join,
        arity=MANY,
        text=Spelling(f"{name}({{*}})"),
        python=Spelling(f"{name}({{*}})"),
        cpp=Spelling(f"wir_{name}({{0:own}}, {{1:own}})"),
        evaluate=meaning,
        bounds=bounds,
        floats=Floats.BOUNDED,
        sympy=(name.capitalize(),),
        order=f"{name.capitalize()}(",
    )


MIN = _extremum("min", "least", min, interval_ops.minimum)
MAX = _extremum("max", "greatest", max, interval_ops.maximum)
WHERE = Operator(
    name="where",
    doc="The second operand where the first holds, else the third; only that one is evaluated. Text: `where(c, a, b)`.",
    result=_chosen,
    arity=3,
    text=Spelling("where({*})"),
    python=Spelling("{1:or} if {0:or} else {2:or}", Level.TERNARY),
    cpp=Spelling("{0:bool or} ? {1:own or} : {2:own or}", Level.TERNARY),
    lazy=True,
    evaluate=lambda operand, count: operand(1 if operand(0) else 2),
    bounds=interval_ops.where,
    floats=Floats.ALWAYS,
    sympy=("Where", "ITE"),
    order="Where(",
)


def _comparison(
    sign: str, meaning: Callable[[Number, Number], bool], bounds: Callable[..., Interval], sympy: str
) -> Operator:
    return Operator(
        name=sign,
        doc=f"A comparison. Text: `a {sign} b`.",
        result=_bool,
        text=Spelling(f"{{0:sum}} {sign} {{1:sum}}", Level.COMPARE),
        python=Spelling(f"{{0:sum}} {sign} {{1:sum}}", Level.COMPARE),
        cpp=Spelling(f"{{0:common sum}} {sign} {{1:common sum}}", Level.COMPARE),
        evaluate=meaning,
        bounds=bounds,
        sympy=(sympy,),
        order=f"Cmp({sign}, ",
    )


EQ = _comparison("==", operator.eq, interval_ops.eq, "Equality")
NE = _comparison("!=", operator.ne, interval_ops.ne, "Unequality")
LT = _comparison("<", operator.lt, interval_ops.lt, "StrictLessThan")
LE = _comparison("<=", operator.le, interval_ops.le, "LessThan")
GT = _comparison(">", operator.gt, interval_ops.gt, "StrictGreaterThan")
GE = _comparison(">=", operator.ge, interval_ops.ge, "GreaterThan")
COMPARISONS = (EQ, NE, LT, LE, GT, GE)

AND = Operator(
    name="and",
    doc="True where all operands are, evaluated left to right until one is false. Text: `a and b`.",
    result=_bool,
    arity=MANY,
    text=Spelling("{0:not} and {1:not}", Level.AND),
    python=Spelling("{0:bool not} and {1:bool not}", Level.AND),
    cpp=Spelling("{0:bool not} && {1:bool not}", Level.AND),
    lazy=True,
    evaluate=lambda operand, count: all(map(operand, range(count))),
    bounds=interval_ops.conjunction,
    floats=Floats.ALWAYS,
    sympy=("And",),
    order="And(",
)
OR = Operator(
    name="or",
    doc="True where any operand is, evaluated left to right until one is true. Text: `a or b`.",
    result=_bool,
    arity=MANY,
    text=Spelling("{0:and} or {1:and}", Level.OR),
    python=Spelling("{0:bool and} or {1:bool and}", Level.OR),
    cpp=Spelling("{0:bool not} || {1:bool not}", Level.OR),  # compilers warn about `a && b || c`
    lazy=True,
    evaluate=lambda operand, count: any(map(operand, range(count))),
    bounds=interval_ops.disjunction,
    floats=Floats.ALWAYS,
    sympy=("Or",),
    order="Or(",
)
NOT = Operator(
    name="not",
    doc="The negation. Text: `not a`.",
    result=_bool,
    arity=1,
    text=Spelling("not {0:not}", Level.NOT),
    python=Spelling("not {0:bool not}", Level.NOT),
    cpp=Spelling("!{0:bool atom}"),
    evaluate=operator.not_,
    bounds=interval_ops.negation,
    floats=Floats.ALWAYS,
    sympy=("Not",),
    order="Not(",
)


def _conversion(
    name: str,
    doc: str,
    result: Callable[[_Kinds], SymKind],
    meaning: Callable[..., Number],
    texts: tuple[str, str],
    sympy: tuple[str, ...] = (),
    bounds: Callable[..., Interval] | None = None,
) -> Operator:
    """`texts` are the Python function, and the C++ type after the function that rounds a float, if one does."""
    python, cpp = texts
    *rounding, cpp_type = cpp.split()
    plain = Spelling(f"static_cast<{cpp_type}>({{0}})")
    return Operator(
        name=name,
        doc=f"{doc} Text: `{name}(a)`.",
        result=result,
        arity=1,
        text=Spelling(f"{name}({{*}})"),
        python=Spelling(f"{python}({{*}})"),
        cpp=Spelling(f"static_cast<{cpp_type}>(std::{rounding[0]}({{0}}))") if rounding else plain,
        cpp_of_ints=plain,
        evaluate=meaning,
        bounds=bounds or (lambda x: x.apply(meaning)),
        floats=Floats.BOUNDED,
        sympy=sympy,
        order=f"Convert({name}, ",
    )


TO_INT = _conversion("to_int", "Truncation.", _int, int, ("int", "trunc int64_t"), ("TruncToInt",))
TO_FLOAT = _conversion("to_float", "The nearest float.", _float, float, ("float", "double"), ("ToFloat",))
TO_BOOL = _conversion(
    "to_bool", "True where not 0.", _bool, bool, ("bool", "bool"), bounds=interval_ops.conjunction
)
FLOOR = _conversion(
    "floor", "Rounding down.", _int, math.floor, ("math.floor", "floor int64_t"), ("FloorToInt",)
)
CEIL = _conversion("ceil", "Rounding up.", _int, math.ceil, ("math.ceil", "ceil int64_t"), ("CeilToInt",))
ROUND = _conversion(
    "round", "The nearest int, halves to even.", _int, round, ("round", "nearbyint int64_t"), ("RoundToInt",)
)
CONVERSIONS = (TO_INT, TO_FLOAT, TO_BOOL, FLOOR, CEIL, ROUND)

ABS = Operator(
    name="abs",
    doc="The absolute value, of the same kind. Text: `abs(a)`.",
    result=_numeric,
    arity=1,
    text=Spelling("abs({*})"),
    python=Spelling("abs({*})"),
    cpp=Spelling("wir_abs({0:own})"),
    evaluate=abs,
    bounds=Interval.absolute,
    floats=Floats.BOUNDED,
    sympy=("Abs", "OpaqueUnaryFn_abs"),
    order="MathFn(abs, ",
)


def _function(name: str) -> Operator:
    """A function of a float, with the same name in all languages."""
    return Operator(
        name=name,
        doc=f"The function of this name, of a float. Text: `{name}(a)`.",
        result=_float,
        arity=1,
        text=Spelling(f"{name}({{*}})"),
        python=Spelling(f"math.{name}({{*}})"),
        cpp=Spelling(f"std::{name}({{0:float}})"),
        evaluate=getattr(math, name),  # the names are math's
        sympy=(f"OpaqueUnaryFn_{name}", name),
        order=f"MathFn({name}, ",
    )


SQRT = _function("sqrt")
LOG = _function("log")
UNARY_FUNCTIONS = (
    SQRT,
    _function("exp"),
    LOG,
    *map(_function, ("log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh")),
)

ROUND_TO = Operator(
    name="round_to",
    doc="A float rounded to a number of decimal digits. Text: `round_to(a, 2)`.",
    result=_float,
    text=Spelling("round_to({*})"),
    # `round` of an int to a negative number of digits would compute a power of ten.
    python=Spelling("round(float({0}), {1:int})"),
    cpp=Spelling("wir_round_to({0:float}, {1:int})"),
    evaluate=lambda x, digits: round(float(x), int(digits)),
    sympy=("RoundDecimal",),
    order="MathFn(round_to, ",
)


def _bitwise(
    name: str, sign: str, meaning: Callable[[int, int], int], bounds: Callable[..., Interval]
) -> Operator:
    return Operator(
        name=f"bit_{name}",
        doc=f"Bitwise {name} of two's complement ints. Text: `bit_{name}(a, b)`.",
        result=_int,
        text=Spelling(f"bit_{name}({{*}})"),
        python=Spelling(f"({{0:int sum}} {sign} {{1:int sum}})"),
        cpp=Spelling(f"({{0:int sign}} {sign} {{1:int sign}})"),
        evaluate=lambda a, b: meaning(int(a), int(b)),
        bounds=bounds,
        floats=Floats.BOUNDED,
        sympy=(f"BitwiseFn_bitwise_{name}",),
        order=f"MathFn(bit_{name}, ",
    )


BIT_AND = _bitwise("and", "&", operator.and_, interval_ops.bit_and)
BIT_OR = _bitwise("or", "|", operator.or_, interval_ops.bit_or)
BIT_XOR = _bitwise("xor", "^", operator.xor, interval_ops.bit_or)
FUNCTIONS = (ABS, *UNARY_FUNCTIONS, ROUND_TO, BIT_AND, BIT_OR, BIT_XOR)

OPERATORS = Operators(
    (
        *(ADD, MUL, FLOORDIV, CEILDIV, MOD, MIN, MAX, WHERE, TRUEDIV, POW),
        *COMPARISONS,
        *(AND, OR, NOT),
        *CONVERSIONS,
        *FUNCTIONS,
    )
)
"""All operators."""


def by_name(name: str) -> Operator:
    """The operator of this name; raises KeyError."""
    return OPERATORS.by_name[name]


RESERVED_NAMES = frozenset(
    {"size", "stride", "offset", "item", "true", "false", "inf", "nan"}
    | OPERATORS.calls.keys()
    | set(keyword.kwlist)
)
"""Names that a symbol cannot have, because the text form gives them a meaning."""

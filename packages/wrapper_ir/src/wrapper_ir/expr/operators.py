"""Table of operators: one row each, which defines everything except normal form and proofs.

To add an operator, write its row, and a smart constructor in `build` or `logic` if it has a normal form. A
row has, in this order: name and operands, spellings, evaluation and bounds.
"""

from __future__ import annotations

import copyreg
import math
import operator
from collections.abc import Callable

from wrapper_ir.expr import arithmetic, interval_ops
from wrapper_ir.expr.base import MANY, Floats, Number, Operator, Operators, SymKind
from wrapper_ir.expr.interval import Interval
from wrapper_ir.expr.interval_ops import eq, folded, lt, negation
from wrapper_ir.expr.spelling import Level, Spelling

_Kinds = tuple[SymKind, ...]
_Bounds = Callable[..., Interval]


def _numeric(kinds: _Kinds) -> SymKind:
    return SymKind.FLOAT if SymKind.FLOAT in kinds else SymKind.INT


def _join(kinds: _Kinds) -> SymKind:
    return kinds[0] if kinds.count(kinds[0]) == len(kinds) else _numeric(kinds)


def _always(kind: SymKind) -> Callable[[_Kinds], SymKind]:
    return lambda kinds: kind


_int, _float, _bool = map(_always, (SymKind.INT, SymKind.FLOAT, SymKind.BOOL))


# fmt: off
ADD = Operator(
    name="add", doc="A sum. Text: `a + b - c`.", result=_numeric, arity=MANY, sympy=("Add",),
    text=Spelling("{0:own product} + {1:own product}", Level.SUM),
    evaluate=arithmetic.add, bounds=folded(Interval.__add__), floats=Floats.ALWAYS,
)
MUL = Operator(
    name="mul", doc="A product. Text: `2*a*b`.", result=_numeric, arity=MANY, sympy=("Mul",),
    text=Spelling("{0:own product}*{1:own sign}", Level.PRODUCT),
    python=Spelling("{0:own product} * {1:own sign}", Level.PRODUCT),
    evaluate=arithmetic.mul, bounds=folded(Interval.__mul__), floats=Floats.BOUNDED,
)
FLOORDIV = Operator(
    name="floordiv", doc="The quotient rounded toward minus infinity. Text: `a//b`.", result=_numeric,
    sympy=("FloorDiv", "CleanDiv"),
    text=Spelling("{0:product}//{1:sign}", Level.PRODUCT),
    python=Spelling("{0:product} // {1:sign}", Level.PRODUCT),
    cpp=Spelling("wir_floordiv({0:own}, {1:own})"),
    evaluate=operator.floordiv, bounds=Interval.floordiv,
)
CEILDIV = Operator(
    name="ceildiv", doc="The quotient rounded toward plus infinity. Text: `ceildiv(a, b)`.", result=_numeric,
    sympy=("CeilDiv",),
    python=Spelling("-({0:product} // -{1:power})", Level.SIGN),
    cpp=Spelling("wir_ceildiv({0:own}, {1:own})"),
    evaluate=lambda a, b: -(a // -b), bounds=Interval.ceildiv,
)
MOD = Operator(
    name="mod", doc="`a - b*(a//b)`: the sign is the divisor's, as in Python. Text: `a % b`.",
    result=_numeric, sympy=("Mod", "PythonMod"),
    text=Spelling("{0:product} % {1:sign}", Level.PRODUCT),
    cpp=Spelling("wir_mod({0:own}, {1:own})"),
    evaluate=operator.mod, bounds=Interval.mod,
)
TRUEDIV = Operator(
    name="truediv", doc="The quotient as a float, correctly rounded for ints of any size. Text: `a / b`.",
    result=_float, sympy=("FloatTrueDiv", "IntTrueDiv"), order="TrueDiv(",
    text=Spelling("{0:product} / {1:sign}", Level.PRODUCT),
    cpp=Spelling("wir_truediv({0:count}, {1:count})"),
    evaluate=operator.truediv, bounds=interval_ops.truediv, floats=Floats.BOUNDED,
)
POW = Operator(
    name="pow", doc="A power; an int raised to an int must have an exponent >= 0. Text: `a**b`.",
    result=_numeric, sympy=("Pow", "PowByNatural"),
    text=Spelling("{0:atom}**{1:sign}", Level.POWER),
    python=Spelling("{0:own atom} ** {1:own sign}", Level.POWER),
    cpp=Spelling("wir_pow({0:own}, {1:own})"),
    evaluate=arithmetic.power, bounds=Interval.power,
)
MIN = Operator(
    name="min", doc="The least operand. Text: `min(a, b)`.", result=_join, arity=MANY, sympy=("Min",),
    python=Spelling("min({*:own})"),
    cpp=Spelling("wir_min({0:own}, {1:own})"),
    evaluate=min, bounds=folded(Interval.minimum), floats=Floats.BOUNDED,
)
MAX = Operator(
    name="max", doc="The greatest operand. Text: `max(a, b)`.", result=_join, arity=MANY, sympy=("Max",),
    python=Spelling("max({*:own})"),
    cpp=Spelling("wir_max({0:own}, {1:own})"),
    evaluate=max, bounds=folded(Interval.maximum), floats=Floats.BOUNDED,
)
WHERE = Operator(
    name="where", result=lambda kinds: _join(kinds[1:]), arity=3, sympy=("Where", "ITE"),
    doc="The second operand if the first is true, else the third, evaluated lazily. Text: `where(c, a, b)`.",
    python=Spelling("{1:own or} if {0:or} else {2:own or}", Level.TERNARY),
    cpp=Spelling("{0:bool or} ? {1:own or} : {2:own or}", Level.TERNARY),
    lazy=True, evaluate=lambda operand, count: operand(1 if operand(0) else 2),
    bounds=interval_ops.where, floats=Floats.ALWAYS,
)
AND = Operator(
    name="and", doc="True if all operands are, evaluated in order until one is false. Text: `a and b`.",
    result=_bool, arity=MANY, sympy=("And",),
    text=Spelling("{0:bool not} and {1:bool not}", Level.AND),
    cpp=Spelling("{0:bool not} && {1:bool not}", Level.AND),
    lazy=True, evaluate=lambda operand, count: all(map(operand, range(count))),
    bounds=interval_ops.conjunction, floats=Floats.ALWAYS,
)
OR = Operator(
    name="or", doc="True if any operand is, evaluated in order until one is true. Text: `a or b`.",
    result=_bool, arity=MANY, sympy=("Or",),
    text=Spelling("{0:bool and} or {1:bool and}", Level.OR),
    cpp=Spelling("{0:bool not} || {1:bool not}", Level.OR),  # compilers warn about `a && b || c`
    lazy=True, evaluate=lambda operand, count: any(map(operand, range(count))),
    bounds=interval_ops.disjunction, floats=Floats.ALWAYS,
)
NOT = Operator(
    name="not", doc="The negation. Text: `not a`.", result=_bool, arity=1, sympy=("Not",),
    text=Spelling("not {0:bool not}", Level.NOT), cpp=Spelling("!{0:bool atom}"),
    evaluate=operator.not_, bounds=negation, floats=Floats.ALWAYS,
)
ABS = Operator(
    name="abs", doc="The absolute value, of the same kind. Text: `abs(a)`.", result=_numeric, arity=1,
    sympy=("Abs", "OpaqueUnaryFn_abs"), order="MathFn(abs, ",
    cpp=Spelling("wir_abs({0:own})"),
    evaluate=abs, bounds=Interval.absolute, floats=Floats.BOUNDED,
)
ROUND_TO = Operator(
    name="round_to", doc="A float rounded to a number of decimal digits. Text: `round_to(a, 2)`.",
    result=_float, sympy=("RoundDecimal",), order="MathFn(round_to, ",
    # `round` of an int to a negative number of digits would compute a power of ten.
    python=Spelling("round(float({0}), {1:int})"),
    cpp=Spelling("wir_round_to({0:float}, {1:int})"),
    evaluate=lambda x, digits: round(float(x), int(digits)),
)
# fmt: on


def _comparison(
    sign: str, meaning: Callable[[Number, Number], bool], bounds: _Bounds, sympy: str
) -> Operator:
    return Operator(
        name=sign,
        doc=f"A comparison. Text: `a {sign} b`.",
        result=_bool,
        text=Spelling(f"{{0:sum}} {sign} {{1:sum}}", Level.COMPARE),
        cpp=Spelling(f"{{0:common sum}} {sign} {{1:common sum}}", Level.COMPARE),
        evaluate=meaning,
        bounds=bounds,
        sympy=(sympy,),
        order=f"Cmp({sign}, ",
    )


EQ = _comparison("==", operator.eq, eq, "Equality")
NE = _comparison("!=", operator.ne, lambda a, b: negation(eq(a, b)), "Unequality")
LT = _comparison("<", operator.lt, lt, "StrictLessThan")
LE = _comparison("<=", operator.le, lambda a, b: negation(lt(b, a)), "LessThan")
GT = _comparison(">", operator.gt, lambda a, b: lt(b, a), "StrictGreaterThan")
GE = _comparison(">=", operator.ge, lambda a, b: negation(lt(a, b)), "GreaterThan")
COMPARISONS = (EQ, NE, LT, LE, GT, GE)


_RESULTS = {int: _int, float: _float, bool: _bool, math.floor: _int, math.ceil: _int, round: _int}


def _conversion(name: str, doc: str, meaning: Callable[..., Number], cpp: str, *sympy: str) -> Operator:
    """Returns the row of a conversion; `cpp` is its C++ text, except from ints and bools to int."""
    result = _RESULTS[meaning]
    module = "math." if meaning.__module__ == "math" else ""
    return Operator(
        name=name,
        doc=f"{doc} Text: `{name}(a)`.",
        result=result,
        arity=1,
        python=Spelling(f"{module}{meaning.__name__}({{*}})"),
        cpp=Spelling(cpp),
        cpp_of_ints=Spelling("wir_whole({0})" if result is _int else cpp),
        evaluate=meaning,
        bounds=interval_ops.conjunction if meaning is bool else lambda x: x.apply(meaning),
        floats=Floats.BOUNDED,
        sympy=sympy,
        order=f"Convert({name}, ",
    )


TO_INT = _conversion("to_int", "Truncation.", int, "wir_to_int({0})", "TruncToInt")
TO_FLOAT = _conversion("to_float", "The nearest float.", float, "static_cast<double>({0})", "ToFloat")
TO_BOOL = _conversion("to_bool", "True if not 0.", bool, "static_cast<bool>({0})")
FLOOR = _conversion("floor", "Rounding down.", math.floor, "wir_floor({0})", "FloorToInt")
CEIL = _conversion("ceil", "Rounding up.", math.ceil, "wir_ceil({0})", "CeilToInt")
ROUND = _conversion("round", "The nearest int, halves to even.", round, "wir_round({0})", "RoundToInt")
CONVERSIONS = (TO_INT, TO_FLOAT, TO_BOOL, FLOOR, CEIL, ROUND)


def _function(name: str) -> Operator:
    """Returns the row of a float function that has the same name in all languages."""
    return Operator(
        name=name,
        doc=f"The function of this name, of a float. Text: `{name}(a)`.",
        result=_float,
        arity=1,
        python=Spelling(f"math.{name}({{*}})"),
        cpp=Spelling(f"wir_{name}({{0:float}})"),
        evaluate=getattr(math, name),  # the names are math's
        sympy=(f"OpaqueUnaryFn_{name}", name),
        order=f"MathFn({name}, ",
    )


SQRT, EXP, LOG = map(_function, ("sqrt", "exp", "log"))
_MORE = ("log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh")
UNARY_FUNCTIONS = (SQRT, EXP, LOG, *map(_function, _MORE))


def _bitwise(name: str, sign: str, meaning: Callable[[int, int], int], bounds: _Bounds) -> Operator:
    return Operator(
        name=f"bit_{name}",
        doc=f"Bitwise {name} of two's complement ints. Text: `bit_{name}(a, b)`.",
        result=_int,
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

_ARITHMETIC = (ADD, MUL, FLOORDIV, CEILDIV, MOD, MIN, MAX, WHERE, TRUEDIV, POW)
OPERATORS = Operators((*_ARITHMETIC, *COMPARISONS, AND, OR, NOT, *CONVERSIONS, *FUNCTIONS))
"""All operators."""


def _named(name: str) -> Operator:
    return OPERATORS.by_name[name]


copyreg.pickle(Operator, lambda row: (_named, (row.name,)))  # rows compare by identity

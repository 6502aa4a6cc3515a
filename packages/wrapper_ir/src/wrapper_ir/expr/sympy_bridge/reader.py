"""Conversion of sympy objects to expressions, by the names of their classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeAlias

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import operators as ops
from wrapper_ir.expr.base import Expr, Operator, SymKind
from wrapper_ir.expr.build import add, as_expr, ceildiv, floordiv, mod, mul, pow_, truediv, where
from wrapper_ir.expr.leaves import Bool, Float, Int, Sym
from wrapper_ir.expr.logic import apply, to_float, to_int

if TYPE_CHECKING:
    import sympy

SympyExpr: TypeAlias = "sympy.Basic"
"""Any sympy object; sympy publishes no types."""

Handler: TypeAlias = Callable[["_FromSympy", SympyExpr], Expr]


def from_sympy(
    expr: SympyExpr,
    kind_of: Callable[[SympyExpr], SymKind] | None = None,
    leaves: Mapping[str, Expr] | None = None,
) -> Expr:
    """Converts a sympy object or a Python number to an expression.

    `kind_of` returns the kind of a sympy symbol (default: by its assumptions, int or otherwise float).
    `leaves` has the expressions of symbols whose names are not identifiers. Arithmetic is simplified;
    comparisons and logic are not, so that a captured assertion does not fold away. A rational factor among
    ints is an exact division.

    Raises ExpressionError WIR406, which names the class, if the IR has no equivalent.
    """
    return _FromSympy(kind_of, leaves or {}).convert(expr)


def replace_floor(
    expr: SympyExpr, floor_div: Callable[[SympyExpr, SympyExpr], SympyExpr] | None = None
) -> SympyExpr:
    """Replaces every `floor(a/b)` of a sympy expression by `FloorDiv(a, b)`, and `ceiling(a/b)` likewise.

    No `floor` or `ceiling` remains. `floor_div` creates the quotient; by default a function named FloorDiv.
    """
    import sympy

    make = floor_div or sympy.Function("FloorDiv", integer=True)

    def ceiling(argument: SympyExpr) -> SympyExpr:
        numerator, denominator = _fraction(argument)
        return -make(-numerator, denominator)

    without_floor = expr.replace(sympy.floor, lambda argument: make(*_fraction(argument)))
    return without_floor.replace(sympy.ceiling, ceiling)


def _fraction(expr: SympyExpr) -> tuple[SympyExpr, SympyExpr]:
    """Returns numerator and denominator over a common denominator.

    A rational number is split. A power whose exponent is negative or has a minus sign, such as `2**(-n)`,
    belongs to the denominator. An expression other than a product is its only factor.
    """
    import sympy

    numerator = denominator = sympy.Integer(1)
    for factor in sympy.Mul.make_args(sympy.together(expr)):
        if factor.is_Rational:
            numerator *= factor.p
            denominator *= factor.q
        elif factor.is_Pow and factor.exp.could_extract_minus_sign():
            denominator *= sympy.Pow(factor.base, -factor.exp)
        else:
            numerator *= factor
    return numerator, denominator


class _FromSympy:
    """One conversion, with the kinds of symbols and the leaves."""

    def __init__(self, kind_of: Callable[[SympyExpr], SymKind] | None, leaves: Mapping[str, Expr]) -> None:
        self._kind_of = kind_of or _kind_by_assumptions
        self._leaves = leaves

    def convert(self, expr: SympyExpr) -> Expr:
        """Returns the expression for `expr`. Raises ExpressionError WIR406."""
        if isinstance(expr, int | float):  # bools too
            return as_expr(expr)
        for cls in type(expr).__mro__:
            if handler := CLASSES.get(cls.__name__):
                return handler(self, expr)
        message = f"sympy class {type(expr).__name__} has no counterpart (in {expr})"
        raise ExpressionError("WIR406", message, hint="define its value as a symbol first")

    def all(self, expr: SympyExpr) -> list[Expr]:
        """Returns the converted arguments of `expr`."""
        return [self.convert(arg) for arg in expr.args]

    def symbol(self, expr: SympyExpr) -> Expr:
        """Returns a symbol, or the leaf of that name."""
        leaf = self._leaves.get(expr.name)
        return Sym(expr.name, self._kind_of(expr)) if leaf is None else leaf

    def arithmetic(self, make: Callable[..., Expr], expr: SympyExpr) -> Expr:
        """Converts a sum, product or power; negative exponents are divisions.

        Fractions may add up to an int, so their terms share a common denominator.
        """
        return self._divided(expr) if _has_fraction(expr) else make(*self.all(expr))

    def _divided(self, expr: SympyExpr) -> Expr:
        numerator, denominator = map(self.convert, _fraction(expr))
        if SymKind.FLOAT in (numerator.kind, denominator.kind):
            return truediv(numerator, denominator)
        return floordiv(numerator, denominator)

    def rounded(self, expr: SympyExpr) -> Expr:
        """Converts `floor(a/b)` and `ceiling(a/b)`, which are int divisions for ints."""
        up = type(expr).__name__ == "ceiling"
        numerator, denominator = map(self.convert, _fraction(expr.args[0]))
        if SymKind.FLOAT not in (numerator.kind, denominator.kind):
            return ceildiv(numerator, denominator) if up else floordiv(numerator, denominator)
        inner = numerator if denominator == Int(1) else truediv(numerator, denominator)
        return apply(ops.CEIL if up else ops.FLOOR, inner)

    def compare(self, op: Operator, expr: SympyExpr) -> Expr:
        """Converts a comparison without simplification; sides over a number are multiplied by it."""
        if not any(_has_fraction(side) for side in expr.args):
            return op(*self.all(expr))
        (a, below_a), (b, below_b) = (_fraction(side) for side in expr.args)
        if not (below_a.is_Integer and below_b.is_Integer):
            return op(*self.all(expr))
        return op(mul(self.convert(a), int(below_b)), mul(self.convert(b), int(below_a)))

    def piecewise(self, expr: SympyExpr) -> Expr:
        """Converts to nested choices; the last condition must be true."""
        *cases, (otherwise, last) = ((case.expr, self.convert(case.cond)) for case in expr.args)
        if last != Bool(True):
            raise ExpressionError("WIR406", f"sympy class Piecewise without a last case (in {expr})")
        result = self.convert(otherwise)
        for value, condition in reversed(cases):
            result = where(condition, self.convert(value), result)
        return result


def _kind_by_assumptions(symbol: SympyExpr) -> SymKind:
    return SymKind.INT if symbol.is_integer else SymKind.FLOAT


def _is_fraction(expr: SympyExpr) -> bool:
    """Returns whether a term has a denominator."""
    if expr.is_Mul:
        return any(map(_is_fraction, expr.args))
    if expr.is_Pow:
        return bool(expr.exp.could_extract_minus_sign())
    return bool(expr.is_Rational and not expr.is_Integer)


def _has_fraction(expr: SympyExpr) -> bool:
    return any(map(_is_fraction, expr.args if getattr(expr, "is_Add", False) else (expr,)))  # booleans


def _call(make: Callable[..., Expr]) -> Handler:
    return lambda to, expr: make(*to.all(expr))


def _constant(e: Expr) -> Handler:
    return lambda to, expr: e


def _operator(op: Operator) -> Handler:
    """Returns the handler of an operator: arithmetic is simplified, comparisons and logic are not."""
    if op in ops.COMPARISONS:
        return lambda to, expr: to.compare(op, expr)
    if op in (ops.AND, ops.OR):
        return lambda to, expr: op(*args) if len(args := to.all(expr)) > 1 else args[0]
    return _call(op if op is ops.NOT else partial(apply, op))


def _log(to: _FromSympy, expr: SympyExpr) -> Expr:
    value, *base = to.all(expr)
    logarithm = ops.LOG(value)
    return truediv(logarithm, ops.LOG(base[0])) if base else logarithm


def _no_int(to: _FromSympy, expr: SympyExpr) -> Expr:
    raise ExpressionError("WIR406", f"sympy class {type(expr).__name__} is not a number of the IR")


CLASSES: Mapping[str, Handler] = {
    **{name: _operator(op) for op in ops.OPERATORS.rows for name in op.sympy},
    "Integer": lambda to, expr: Int(int(expr)),
    "Rational": lambda to, expr: truediv(int(expr.p), int(expr.q)),
    "Float": lambda to, expr: Float(float(expr)),
    "NaN": _constant(Float(float("nan"))),
    "Infinity": _constant(Float(float("inf"))),
    "NegativeInfinity": _constant(Float(float("-inf"))),
    "IntInfinity": _no_int,
    "NegativeIntInfinity": _no_int,
    "NumberSymbol": lambda to, expr: Float(float(expr)),
    "BooleanTrue": _constant(Bool(True)),
    "BooleanFalse": _constant(Bool(False)),
    "Symbol": lambda to, expr: to.symbol(expr),
    "Add": lambda to, expr: to.arithmetic(add, expr),
    "Mul": lambda to, expr: to.arithmetic(mul, expr),
    "Pow": lambda to, expr: to.arithmetic(pow_, expr),
    "Piecewise": lambda to, expr: to.piecewise(expr),
    "Xor": lambda to, expr: reduce(ops.NE, to.all(expr)),
    "ModularIndexing": _call(lambda base, divisor, modulus: mod(floordiv(base, divisor), modulus)),
    "Identity": _call(as_expr),
    "LShift": _call(lambda value, shift: mul(value, pow_(2, shift))),
    "RShift": _call(lambda value, shift: floordiv(value, pow_(2, shift))),
    "FloatPow": _call(lambda base, exp: pow_(to_float(base), exp)),
    "TruncToFloat": _call(lambda value: to_float(to_int(value))),
    "floor": lambda to, expr: to.rounded(expr),
    "ceiling": lambda to, expr: to.rounded(expr),
    "log": _log,
}
"""Handlers by the name of the sympy class, including those of torch.utils._sympy.functions."""

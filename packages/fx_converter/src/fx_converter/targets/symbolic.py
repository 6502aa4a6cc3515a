"""Arithmetic beyond Python's operators, and arithmetic that may have no value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import torch

from fx_converter.nodes import Number
from wrapper_ir.errors import DivisionError, ExpressionError
from wrapper_ir.expr import arithmetic

Operand: TypeAlias = "Number | NoValue"
Function: TypeAlias = Callable[..., Operand]


def int64(x: Number) -> Number:
    """Returns the number; raises ExpressionError WIR408 for an int that is not an int64."""
    return arithmetic.int64(x) if isinstance(x, int) else x


def power(base: Number, exp: Number) -> Number:
    """Returns the power; raises ExpressionError WIR402 if it does not exist, WIR408 if it is too long to
    compute."""
    if isinstance(base, int | float) and isinstance(exp, int | float):
        return arithmetic.power(base, exp)
    result: Number = operator.pow(base, exp)
    return result


def choose(condition: Operand, yes: Operand, no: Operand) -> Number:
    """Returns one of two numbers; raises the ExpressionError of the chosen one if it has no value. Torch's
    own function accepts two constants or two symbolic numbers only."""
    return _value(_chosen(condition, yes, no))


def _chosen(condition: Operand, yes: Operand, no: Operand) -> Operand:
    if isinstance(condition, bool):
        return yes if condition else no
    if isinstance(condition, NoValue):
        return condition
    choice: Number = _torch.sym_ite(condition, _symbolic(yes, condition), _symbolic(no, condition))
    return choice


def _symbolic(x: Operand, like: Any) -> Any:  # Any: torch leaves sym_ite untyped
    match x:
        case bool():
            return _torch.SymBool(like.node.wrap_bool(x))
        case int():
            return _torch.SymInt(like.node.wrap_int(x))
        case float():
            return _torch.SymFloat(like.node.wrap_float(x))
        case _:
            return x


def both(first: Operand, second: Operand) -> Number:
    """Returns the conjunction, which uses the second operand only if the first is true; raises the
    ExpressionError of a used operand without a value."""
    return _value(_both(first, second))


def _both(first: Operand, second: Operand) -> Operand:
    if isinstance(first, bool):
        return second if first else False
    return first if isinstance(first, NoValue) else operator.and_(first, second)


def either(first: Operand, second: Operand) -> Number:
    """Returns the disjunction, which uses the second operand only if the first is false; raises the
    ExpressionError of a used operand without a value."""
    return _value(_either(first, second))


def _either(first: Operand, second: Operand) -> Operand:
    if isinstance(first, bool):
        return True if first else second
    return first if isinstance(first, NoValue) else operator.or_(first, second)


def truth(x: Number) -> bool | torch.SymBool:
    """Converts a number to a bool."""
    return x if isinstance(x, bool | torch.SymBool) else x != 0


FUNCTIONS: Mapping[str, Function] = {
    "add": operator.add,
    "mul": operator.mul,
    "neg": operator.neg,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
    "pow": power,
    "min": torch.sym_min,
    "max": torch.sym_max,
    "and": operator.and_,
    "or": operator.or_,
    "not": torch.sym_not,
    "where": choose,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "to_int": torch.sym_int,
    "to_float": torch.sym_float,
    "to_bool": truth,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "abs": operator.abs,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
    "round_to": round,
}
"""A function for each operator whose operands have values, by its name; `neg` is the product with -1."""
_MATH = (
    "sqrt",
    "exp",
    "log",
    "log2",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
)
PARTIAL: Mapping[str, Function] = {
    **FUNCTIONS,
    "add": lambda a, b: arithmetic.add(a, b) if _are_ints(a, b) else a + b,
    "mul": lambda a, b: arithmetic.mul(a, b) if _are_ints(a, b) else a * b,
    **{name: getattr(math, name) for name in _MATH},  # math's names
}
"""`FUNCTIONS`, with functions that are partial, and with the limits of `arithmetic`."""


_torch: Any = torch  # Any: torch leaves these untyped
_SYMBOLIC = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
EXACT: Mapping[str, Function] = {
    **PARTIAL,
    # torch has variants of these over symbolic numbers, under private names
    **{name: getattr(torch, f"_sym_{name}") for name in _SYMBOLIC},
}
"""`PARTIAL`, over symbolic numbers too."""
_LAZY: Mapping[str, Function] = {"where": _chosen, "and": _both, "or": _either}


def _are_ints(a: object, b: object) -> bool:
    return isinstance(a, int) and isinstance(b, int)


class NoValue:
    """Placeholder of an operand without a value, until it is known whether the operand is used."""

    __slots__ = ("code", "kind", "message")

    def __init__(self, error: ExpressionError) -> None:
        # Not the error itself: its traceback would keep the tensors of the call alive.
        self.kind, self.code, self.message = type(error), error.code, error.message

    def fail(self) -> NoReturn:
        """Raises the ExpressionError of the operand."""
        raise self.kind(self.code, self.message)


def _value(x: Operand) -> Number:
    if isinstance(x, NoValue):
        x.fail()
    return x


def total_call(name: str, *args: Operand) -> Operand:
    """Returns the value of the function; raises ExpressionError WIR402 if none exists, WIR408 if it is too
    long."""
    try:
        return EXACT[name](*args)
    except (ArithmeticError, ValueError) as error:
        coded = _coded(error, name, args)
        if coded is error:
            raise
        raise coded from error


def partial_call(name: str, *args: Operand) -> Operand:
    """Returns the function's value, or `NoValue` if none exists. A graph computes operands that may be
    unused."""
    if name in _LAZY:
        return _LAZY[name](*args)
    for arg in args:
        if isinstance(arg, NoValue):
            return arg
    try:
        return PARTIAL[name](*args)
    except (ArithmeticError, ValueError) as error:
        return NoValue(_coded(error, name, args))


def _coded(error: Exception, name: str, args: tuple[Operand, ...]) -> ExpressionError:
    """Converts the error to one of an expression."""
    if isinstance(error, ExpressionError):
        return error
    operands = ", ".join(arithmetic.shown(arg) if isinstance(arg, int) else str(arg) for arg in args)
    kind = DivisionError if isinstance(error, ZeroDivisionError) else ExpressionError
    return kind("WIR402", f"cannot evaluate {name}({operands}): {error}")

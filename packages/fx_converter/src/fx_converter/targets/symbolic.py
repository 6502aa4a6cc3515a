"""Arithmetic that Python's operators do not have, and arithmetic that may have no value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch

from wrapper_ir.errors import DivisionError, ExpressionError
from wrapper_ir.expr import arithmetic


# Any: Python's numbers and torch's symbolic ones.
def int64(x: Any) -> Any:
    """The number itself; raises ExpressionError WIR408 for an int that is not an int64."""
    return arithmetic.int64(x) if isinstance(x, int) else x


_NUMBERS = (int, float)  # bools too


def power(base: Any, exp: Any) -> Any:
    """The power; raises ExpressionError WIR402 where there is none, WIR408 where it is too long, before it is computed."""
    plain = isinstance(base, _NUMBERS) and isinstance(exp, _NUMBERS)
    return arithmetic.power(base, exp) if plain else base**exp


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """One of two numbers; raises the ExpressionError of the chosen one where that has no value. Torch's own function takes
    two constants or two symbolic numbers."""
    return _value(_chosen(condition, yes, no))


def _chosen(condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, bool):
        return yes if condition else no
    if isinstance(condition, NoValue):
        return condition
    return _torch.sym_ite(condition, _symbolic(yes, condition), _symbolic(no, condition))


def _symbolic(x: Any, like: torch.SymBool) -> Any:
    match x:
        case bool():
            return _torch.SymBool(like.node.wrap_bool(x))
        case int():
            return _torch.SymInt(like.node.wrap_int(x))
        case float():
            return _torch.SymFloat(like.node.wrap_float(x))
        case _:
            return x


def both(first: Any, second: Any) -> Any:
    """The conjunction, which looks at the second operand where the first is true; raises the ExpressionError of one that
    has no value."""
    return _value(_both(first, second))


def _both(first: Any, second: Any) -> Any:
    if isinstance(first, bool):
        return second if first else False
    return first if isinstance(first, NoValue) else first & second


def either(first: Any, second: Any) -> Any:
    """The disjunction, which looks at the second operand where the first is false; raises the ExpressionError of one that
    has no value."""
    return _value(_either(first, second))


def _either(first: Any, second: Any) -> Any:
    if isinstance(first, bool):
        return True if first else second
    return first if isinstance(first, NoValue) else first | second


def truth(x: Any) -> Any:
    """The number as a bool."""
    return x if isinstance(x, bool | torch.SymBool) else x != 0


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
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
"""A function for each operator whose operands have values, by its name; `neg` is the matmul with -1."""
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
PARTIAL: Mapping[str, Callable[..., Any]] = {
    **FUNCTIONS,
    "add": lambda a, b: arithmetic.add(a, b) if _are_ints(a, b) else a + b,
    "mul": lambda a, b: arithmetic.mul(a, b) if _are_ints(a, b) else a * b,
    **{name: getattr(math, name) for name in _MATH},  # math's own names
}
"""The same, of functions that have no value for some numbers, and with the limit of `arithmetic`."""


_torch: Any = torch  # leaves these untyped
_SYMBOLIC = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
EXACT: Mapping[str, Callable[..., Any]] = {
    **PARTIAL,
    # of these torch has variants over symbolic numbers, under private names
    **{name: getattr(torch, f"_sym_{name}") for name in _SYMBOLIC},
}
"""The same functions, over symbolic numbers too."""
_LAZY: Mapping[str, Callable[..., Any]] = {"where": _chosen, "and": _both, "or": _either}


def _are_ints(a: Any, b: Any) -> bool:
    return isinstance(a, int) and isinstance(b, int)


class NoValue:
    """Stands for the value of an operand that has none, until it is known whether the operand matters."""

    __slots__ = ("code", "kind", "message")

    def __init__(self, error: ExpressionError) -> None:
        # Not the error itself: its traceback would hold the tensors of the call.
        self.kind, self.code, self.message = type(error), error.code, error.message

    def fail(self) -> NoReturn:
        """Raises the ExpressionError that says why there is no value."""
        raise self.kind(self.code, self.message)


def _value(x: Any) -> Any:
    if isinstance(x, NoValue):
        x.fail()
    return x


def total_call(name: str, *args: Any) -> Any:
    """The function's value; raises ExpressionError WIR402 where it has none, WIR408 where it is too long."""
    try:
        return EXACT[name](*args)
    except (ArithmeticError, ValueError) as error:
        found = _coded(error, name, args)
        if found is error:
            raise
        raise found from error


def partial_call(name: str, *args: Any) -> Any:
    """The function's value, or `NoValue` where it has none: of operands that may turn out not to matter, which a graph
    computes nevertheless."""
    if name in _LAZY:
        return _LAZY[name](*args)
    for arg in args:
        if isinstance(arg, NoValue):
            return arg
    try:
        return PARTIAL[name](*args)
    except (ArithmeticError, ValueError) as error:
        return NoValue(_coded(error, name, args))


def _coded(error: Exception, name: str, args: tuple[Any, ...]) -> ExpressionError:
    """The error as one of an expression."""
    if isinstance(error, ExpressionError):
        return error
    shown = ", ".join(arithmetic.shown(arg) if isinstance(arg, int) else str(arg) for arg in args)
    kind = DivisionError if isinstance(error, ZeroDivisionError) else ExpressionError
    return kind("WIR402", f"cannot evaluate {name}({shown}): {error}")

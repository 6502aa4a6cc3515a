"""Evaluation of expressions with Python's numbers, the reference semantics for all printers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir.errors import DivisionError, ExpressionError
from wrapper_ir.expr.arithmetic import fits_int64, shown
from wrapper_ir.expr.base import Expr, Number, SymKind
from wrapper_ir.expr.leaves import Int, Sym
from wrapper_ir.expr.operators import POW


def evaluate(e: Expr, env: Mapping[str, Number], atom: Callable[[Expr], Number] | None = None) -> Number:
    """Returns the value of `e`; `env` has the symbols by name, `atom` evaluates atoms (sizes, items, ...).

    Raises ExpressionError WIR402 for an unknown symbol or atom, a division by zero, an argument outside a
    function's domain, an overflow, and an int power with a negative exponent. Raises WIR408 for an int result
    outside int64, and for an intermediate result of more than 4096 bits, before computing it.
    """
    try:
        value = e.value if type(e) is Int else _value(e, env, atom)
    except ExpressionError:
        raise
    except (ArithmeticError, ValueError) as error:
        kind = DivisionError if isinstance(error, ZeroDivisionError) else ExpressionError
        raise kind("WIR402", f"cannot evaluate {e}: {error}") from error
    if type(value) is int and not fits_int64(value):
        raise ExpressionError("WIR408", f"{e} is {shown(value)}, which is not an int64")
    return value


def _value(e: Expr, env: Mapping[str, Number], atom: Callable[[Expr], Number] | None) -> Number:
    op = e.op
    if op is None:
        constant = e.constant
        return _leaf(e, env, atom) if constant is None else constant
    if op.lazy:
        value = op.evaluate(lambda index: _value(e.args[index], env, atom), len(e.args))
    else:
        values = [_value(arg, env, atom) for arg in e.args]
        if op is POW and e.kind is SymKind.FLOAT:
            values = [float(value) for value in values]
        value = op.evaluate(*values)
    if type(value) is bool and e.kind is SymKind.INT:  # a choice among operands of several kinds
        return int(value)
    return float(value) if e.kind is SymKind.FLOAT else value


def _leaf(e: Expr, env: Mapping[str, Number], atom: Callable[[Expr], Number] | None) -> Number:
    if type(e) is Sym:
        try:
            return env[e.name]
        except KeyError:
            raise ExpressionError("WIR402", f"symbol {e.name} has no value here") from None
    if atom is None:
        raise ExpressionError("WIR402", f"{e} has no value here", hint="pass atom=")
    return atom(e)

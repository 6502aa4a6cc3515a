"""The value of an expression, with Python's numbers: the meaning that every printer has to agree with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.arithmetic import fits_int64, shown
from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.leaves import Int, Sym
from wrapper_ir.expr.operator_row import Number
from wrapper_ir.expr.operators import POW

__all__ = ["evaluate"]


def evaluate(e: Expr, env: Mapping[str, Number], atom: Callable[[Expr], Number] | None = None) -> Number:
    """The value of `e` where `env` gives the symbols by name and `atom` the atoms (sizes, items ...).

    Raises ExpressionError WIR402 for an unknown symbol or atom, a division by zero, an argument outside a
    function's domain, an overflow, and an int power with a negative exponent; WIR408 for an int result
    outside int64, and for an intermediate one of more than 4096 bits, before it is computed.
    """
    try:
        value = e.value if type(e) is Int else _Evaluator(env, atom).value(e)
    except ExpressionError:
        raise
    except (ArithmeticError, ValueError) as error:
        raise ExpressionError("WIR402", f"cannot evaluate {e}: {error}") from error
    if type(value) is int and not fits_int64(value):
        raise ExpressionError("WIR408", f"{e} is {shown(value)}, which is not an int64")
    return value


class _Evaluator:
    def __init__(self, env: Mapping[str, Number], atom: Callable[[Expr], Number] | None) -> None:
        self._env = env
        self._atom = atom

    def value(self, e: Expr) -> Number:
        op = e.op
        if op is None:
            constant = e.constant
            return self._leaf(e) if constant is None else constant
        if op.lazy:
            return op.evaluate(lambda index: self.value(e.args[index]), len(e.args))
        values = [self.value(arg) for arg in e.args]
        if op is POW and e.kind is SymKind.FLOAT:
            values = [float(value) for value in values]
        return op.evaluate(*values)

    def _leaf(self, e: Expr) -> Number:
        if type(e) is Sym:
            try:
                return self._env[e.name]
            except KeyError:
                raise ExpressionError("WIR402", f"symbol {e.name} has no value here") from None
        if self._atom is None:
            raise ExpressionError("WIR402", f"{e} has no value here", hint="pass atom=")
        return self._atom(e)

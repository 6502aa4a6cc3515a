"""Exact arithmetic with a limit: no number grows beyond `MAX_BITS`, which is far beyond what a size can be."""

from __future__ import annotations

from wrapper_ir.errors import DivisionError, ExpressionError

MAX_BITS = 4096
"""Bits of an int constant or intermediate result at most; results are int64."""

_LEAST, _GREATEST = -(2**63), 2**63 - 1


def fits_int64(value: int) -> bool:
    """Whether a size or an int argument can have this value."""
    return _LEAST <= value <= _GREATEST


def int64(value: int) -> int:
    """The number itself; raises ExpressionError WIR408 where it is not an int64."""
    if not fits_int64(value):
        raise ExpressionError("WIR408", f"{shown(value)} is not an int64")
    return value


def shown(value: float) -> str:
    """The number, or how long it is."""
    bits = value.bit_length() if type(value) is int else 0
    return f"a number of {bits} bits" if bits > 256 else str(value)


def fits(value: float) -> bool:
    """Whether this number may occur in an expression."""
    return type(value) is not int or value.bit_length() <= MAX_BITS


def _limited(value: float, what: str) -> float:
    if not fits(value):
        raise ExpressionError("WIR408", f"{what} has more than {MAX_BITS} bits")
    return value


def add(*values: float) -> float:
    """The sum from left to right, as floats have to be added."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return _limited(total, "a sum")


def mul(*values: float) -> float:
    """The product from left to right; raises ExpressionError WIR408 where it is too long."""
    if 0 in values and float not in map(type, values):
        return 0  # whatever the order of the factors
    total = values[0]
    for value in values[1:]:
        total = _limited(total * value, "a product")
    return total


def power(base: float, exp: float) -> float:
    """The power; of floats as Python's, of ints with an exponent >= 0.

    Raises ExpressionError WIR402 where there is no such number, WIR408 where it is too long, without computing it.
    """
    if type(base) is float or type(exp) is float:
        return _float_power(float(base), float(exp))
    if exp < 0:
        raise ExpressionError("WIR402", f"negative exponent {shown(exp)} of an int")
    # |base| <= 1 has short powers whatever the exponent, which decides their sign alone.
    if abs(base) > 1 and (int(base).bit_length() - 1) * exp >= MAX_BITS:
        raise ExpressionError("WIR408", f"{shown(base)}**{shown(exp)} has more than {MAX_BITS} bits")
    return _limited(int(base) ** int(exp), f"{shown(base)}**{shown(exp)}")


def _float_power(base: float, exp: float) -> float:
    try:
        result: float | complex = base**exp
    except ArithmeticError as error:
        kind = DivisionError if isinstance(error, ZeroDivisionError) else ExpressionError
        raise kind("WIR402", f"cannot evaluate {base}**{exp}: {error}") from error
    if isinstance(result, complex):
        raise ExpressionError("WIR402", f"{base}**{exp} is not real")
    return result

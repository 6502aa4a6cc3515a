"""Exact arithmetic with a limit: no number has more than `MAX_BITS` bits, far more than any size."""

from __future__ import annotations

from wrapper_ir.errors import DivisionError, ExpressionError

MAX_BITS = 4096
"""The maximum number of bits of an int constant or intermediate result; results are int64."""

_LEAST, _GREATEST = -(2**63), 2**63 - 1


def fits_int64(value: int) -> bool:
    """Returns whether a size or an int argument can have this value."""
    return _LEAST <= value <= _GREATEST


def int64(value: int) -> int:
    """Returns the number itself. Raises ExpressionError WIR408 if it is not an int64."""
    if not fits_int64(value):
        raise ExpressionError("WIR408", f"{shown(value)} is not an int64")
    return value


def shown(value: float) -> str:
    """Returns the number for messages, or the length of a long one."""
    bits = value.bit_length() if type(value) is int else 0
    return f"a number of {bits} bits" if bits > 256 else str(value)


def fits(value: float) -> bool:
    """Returns whether an expression may contain this number."""
    return type(value) is not int or value.bit_length() <= MAX_BITS


def _limited(value: float, what: str) -> float:
    if not fits(value):
        raise ExpressionError("WIR408", f"{what} has more than {MAX_BITS} bits")
    return value


def add(*values: float) -> float:
    """Returns the sum, from left to right, because float addition is not associative."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return _limited(total, "a sum")


def mul(*values: float) -> float:
    """Returns the product, from left to right. Raises ExpressionError WIR408 if it is too long."""
    if 0 in values and float not in map(type, values):
        return 0  # otherwise the order of factors would decide whether an intermediate product is too long
    total = values[0]
    for value in values[1:]:
        total = _limited(total * value, "a product")
    return total


def power(base: float, exp: float) -> float:
    """Returns the power, as Python computes it; an int to an int requires an exponent >= 0.

    Raises ExpressionError WIR402 if the power is undefined, and WIR408 if it is too long, before computing
    it.
    """
    if type(base) is float or type(exp) is float:
        return _float_power(float(base), float(exp))
    if exp < 0:
        raise ExpressionError("WIR402", f"negative exponent {shown(exp)} of an int")
    # Powers of |base| <= 1 are short for any exponent.
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

"""Formats numbers as text, with the same digits as `cpp_wrapper`'s runtime (`values.cpp`)."""

from __future__ import annotations

import ctypes
import math

from wrapper_ir_runtime.tensor_text.elements import Number

_SINGLE = (6, 7, 8, 9)
_DOUBLE = (15, 16, 17)


def number_text(value: Number, is_double: bool = True) -> str:
    """Returns an element or scalar without loss.

    Ints and bools are formatted as in Python. Floats have the fewest digits of `%g`, from 6 on (15 if
    `is_double`), that read back as the same number of that width.
    """
    if isinstance(value, complex):
        real, imaginary = (number_text(part, is_double) for part in (value.real, value.imag))
        return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return _not_finite(value)
    text = ""
    for digits in _DOUBLE if is_double else _SINGLE:
        text = f"{value:.{digits}g}"
        read = float(text)
        if (read if is_double else ctypes.c_float(read).value) == value:
            break
    return text


def statistic_text(value: Number) -> str:
    """Returns a mean, extreme or deviation: floats with six digits, ints without loss."""
    if isinstance(value, complex):
        real, imaginary = statistic_text(value.real), statistic_text(value.imag)
        return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.6g}" if math.isfinite(value) else _not_finite(value)


def _not_finite(value: float) -> str:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"

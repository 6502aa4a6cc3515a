"""What torch's ShapeEnv knows of a symbol, in the form of every supported version. Imports nothing of Inductor: functions out of
the cache need it."""

from __future__ import annotations

import math
from typing import Any

import sympy

# Any in this file: torch's ShapeEnv is untyped.

# Torch writes "no bound" as a huge integer or as an infinity.
_UNBOUNDED = 2**62


def bound(value: object) -> int | None:
    """A bound of a range as an int; None where it is open."""
    if isinstance(value, (sympy.Integer, int)):
        number = int(value)
        return number if abs(number) < _UNBOUNDED else None
    if isinstance(value, sympy.Float) and math.isfinite(float(value)) and float(value).is_integer():
        return int(value)
    return None


def symbol_range(shape_env: Any, symbol: sympy.Symbol) -> tuple[int | None, int | None]:
    """Inclusive bounds of a symbol; None where it is unbounded. `shape_env`: torch's ShapeEnv (untyped)."""
    found = shape_env.var_to_range.get(symbol)
    return (None, None) if found is None else (bound(found.lower), bound(found.upper))


def symbol_hint(shape_env: Any, symbol: sympy.Symbol) -> int | float | None:
    """The example value of a backed symbol; None for others."""
    table = shape_env.backed_var_to_val
    value = table.get(symbol)
    if isinstance(value, sympy.Integer):
        return int(value)
    return float(value) if isinstance(value, sympy.Float) else None

"""Reads facts about a symbol from torch's ShapeEnv, in every supported version.

Imports nothing of Inductor, because functions loaded from the cache use it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import sympy

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv


# Torch represents "no bound" as a huge integer or as infinity.
_UNBOUNDED = 2**62


def bound(value: object) -> int | None:
    """Returns a bound of a range as an int; None if it is open."""
    match value:
        case sympy.Integer() | int():
            number = int(value)
            return number if abs(number) < _UNBOUNDED else None
        case sympy.Float() if math.isfinite(float(value)) and float(value).is_integer():
            return int(value)
        case _:
            return None


def symbol_range(shape_env: ShapeEnv, symbol: sympy.Symbol) -> tuple[int | None, int | None]:
    """Returns inclusive bounds of a symbol, each None if unbounded. `shape_env` is torch's ShapeEnv
    (untyped)."""
    limits = shape_env.var_to_range.get(symbol)
    return (None, None) if limits is None else (bound(limits.lower), bound(limits.upper))


def symbol_hint(shape_env: ShapeEnv, symbol: sympy.Symbol) -> int | float | None:
    """Returns the example value of a backed symbol; None for other symbols."""
    table = shape_env.backed_var_to_val
    value = table.get(symbol)
    if isinstance(value, sympy.Integer):
        return int(value)
    return float(value) if isinstance(value, sympy.Float) else None

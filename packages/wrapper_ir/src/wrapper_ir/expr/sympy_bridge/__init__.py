"""Conversion of expressions to and from sympy, which is imported when one of these functions runs.

Sympy computes with exact numbers and has no kinds. Int divisions and conversions are therefore functions with
torch's names (`FloorDiv`, `IntTrueDiv`, `ToFloat`, ...). They are recognized by the name of their class, so
that torch's classes are understood without importing torch.
"""

from importlib.util import find_spec

from wrapper_ir.expr.sympy_bridge.reader import from_sympy, replace_floor
from wrapper_ir.expr.sympy_bridge.simplify import simplify
from wrapper_ir.expr.sympy_bridge.solve import solve
from wrapper_ir.expr.sympy_bridge.writer import to_sympy

__all__ = ["from_sympy", "replace_floor", "simplify", "solve", "to_sympy"]

if find_spec("sympy") is None:
    raise ModuleNotFoundError("sympy is missing: pip install 'wrapper-ir[sympy]'", name="sympy")

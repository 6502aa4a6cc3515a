"""The only place where expressions meet sympy, which is imported when one of these functions runs.

Sympy computes with exact numbers and knows no kinds. What a compiler means by an int division is therefore
spelled by functions with the names that torch gives them (`FloorDiv`, `IntTrueDiv`, `ToFloat` ...); they are
recognised by the name of their class, so that torch's own classes are understood without importing torch.
"""

from importlib.util import find_spec

from wrapper_ir.expr.sympy_bridge.reader import from_sympy, replace_floor
from wrapper_ir.expr.sympy_bridge.simplify import simplify
from wrapper_ir.expr.sympy_bridge.solve import solve
from wrapper_ir.expr.sympy_bridge.writer import to_sympy

__all__ = ["from_sympy", "replace_floor", "simplify", "solve", "to_sympy"]

if find_spec("sympy") is None:
    raise ModuleNotFoundError("sympy is missing: pip install 'wrapper-ir[sympy]'", name="sympy")

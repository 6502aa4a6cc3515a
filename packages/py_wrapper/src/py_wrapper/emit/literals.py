"""Literals of signatures as Python text."""

from __future__ import annotations

import math

from py_wrapper.errors import EmitError
from wrapper_ir import ir
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.support.quoting import python_string


def key_text(key: object) -> str:
    """Returns the text of a dict's key."""
    if isinstance(key, float) and not math.isfinite(key):
        return f'float("{key}")'
    return python_string(key) if isinstance(key, str) else repr(key)


def literal_text(value: ir.Arg) -> str:
    """Returns the Python text of a literal; raises EmitError PY102 for other values."""
    match value:
        case None:
            return "None"
        case str():
            return python_string(value)
        case Int() | Bool():
            return repr(value.value)
        case Float():
            return repr(value.value) if math.isfinite(value.value) else f'float("{value.value}")'
        case ir.Complex():
            return f"complex({literal_text(value.real)}, {literal_text(value.imag)})"
        case tuple():
            return f"[{', '.join(literal_text(item) for item in value)}]"
        case ir.DType():
            return f"torch.{value.torch_name}"
        case ir.Device():
            return f"torch.device({python_string(str(value))})"
        case ir.MemoryFormat() | ir.Layout():
            return f"torch.{value.value}"
        case _:
            raise EmitError("PY102", f"{value} is not a literal")

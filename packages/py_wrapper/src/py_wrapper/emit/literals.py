"""Literals of signatures as Python text."""

from __future__ import annotations

from py_wrapper.emit.writer import quoted
from py_wrapper.errors import EmitError
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.ops import Arg, Complex
from wrapper_ir.types import Device, DType, Layout, MemoryFormat

__all__ = ["key_text", "literal_text"]


def key_text(key: object) -> str:
    """A dict's key."""
    return quoted(key) if isinstance(key, str) else repr(key)


def literal_text(value: Arg) -> str:
    """Python text of a literal; raises EmitError PY102 for what is none."""
    match value:
        case None:
            return "None"
        case str():
            return quoted(value)
        case Int() | Bool():
            return repr(value.value)
        case Float():
            return (
                f"float({quoted(str(value.value))})" if value.value - value.value != 0 else repr(value.value)
            )
        case Complex():
            return f"complex({literal_text(value.real)}, {literal_text(value.imag)})"
        case tuple():
            return f"[{', '.join(literal_text(item) for item in value)}]"
        case DType():
            return f"torch.{value.torch_name}"
        case Device():
            return f"torch.device({quoted(str(value))})"
        case MemoryFormat() | Layout():
            return f"torch.{value.value}"
        case _:
            raise EmitError("PY102", f"{value} is no literal")

"""Converts torch's dtypes, devices and symbolic sizes to the IR."""

from __future__ import annotations

import sympy
import torch

from inductor_frontend.errors import ConversionError
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Float, Int, as_expr
from wrapper_ir_torch import DTYPE_OF


def to_dtype(dtype: torch.dtype) -> ir.DType:
    """Converts a dtype; raises ConversionError FE305."""
    element_type = DTYPE_OF.get(dtype)
    if element_type is None:
        raise ConversionError("FE305", f"dtype {dtype} has no counterpart in the IR")
    return element_type


def to_device(device: torch.device | None) -> ir.Device:
    """Converts a device; None is the CPU."""
    if device is None or device.type == "cpu":
        return ir.CPU
    return ir.Device(device.type, device.index)


def to_layout(layout: torch.layout) -> ir.Layout:
    """Converts a tensor layout; raises ConversionError FE302."""
    try:
        return ir.Layout(str(layout).removeprefix("torch."))
    except ValueError as error:
        raise ConversionError("FE302", f"layout {layout} has no counterpart in the IR") from error


def to_memory_format(format: torch.memory_format) -> ir.MemoryFormat:
    """Converts a memory format; raises ConversionError FE302."""
    try:
        return ir.MemoryFormat(str(format).removeprefix("torch."))
    except ValueError as error:
        raise ConversionError("FE302", f"memory format {format} has no counterpart in the IR") from error


def constant_int(value: object) -> int | None:
    """Returns the value of a constant integer of sympy or Python; None for any other value."""
    if isinstance(value, (int, sympy.Integer)):
        return int(value)
    return None


def to_expr(value: object) -> Expr:
    """Converts a Python int, a SymInt or a sympy expression to an IR expression, without simplification."""
    constant = constant_int(value)
    if constant is not None and not isinstance(value, bool):
        return Int(constant)
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        value = value.node.expr
    # Imported here: most converted values are constants, which do not need the bridge.
    from wrapper_ir.expr.sympy_bridge import from_sympy

    return from_sympy(value)


def literal(value: object) -> ir.Arg:
    """Converts a plain Python value to a literal argument; raises ConversionError FE302."""
    match value:
        case None | str():
            return value
        case bool() | int() | float():
            return as_expr(value)
        case complex():
            return ir.Complex(Float(value.real), Float(value.imag))
        case torch.dtype():
            return to_dtype(value)
        case torch.device():
            return to_device(value)
        case torch.layout():
            return to_layout(value)
        case torch.memory_format():
            return to_memory_format(value)
        case list() | tuple():
            return tuple(literal(v) for v in value)
        case _:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise ConversionError("FE302", f"a value of type {kind} has no typed form")

"""Arguments of library calls: nested Python structures of upstream's nodes as typed IR arguments."""

from __future__ import annotations

import sympy
import torch
from torch._inductor import ir

from inductor_frontend._compat import OPAQUE_INPUT
from inductor_frontend.build.scope import Scope
from inductor_frontend.convert import to_device, to_dtype, to_layout, to_memory_format
from inductor_frontend.errors import ConversionError
from wrapper_ir.expr import Bool, Float
from wrapper_ir.ops import Arg, Complex

__all__ = ["to_arg"]

_SYMBOLIC = (int, sympy.Basic, torch.SymInt, torch.SymFloat, torch.SymBool)


def to_arg(scope: Scope, value: object) -> Arg:
    """One argument, in structure. Raises ConversionError FE302 for what has no typed form."""
    match value:
        case None | str():
            return value
        case bool():
            return Bool(value)
        case float():
            return Float(value)
        case complex():
            return Complex(Float(value.real), Float(value.imag))
        case list() | tuple():
            return tuple(to_arg(scope, v) for v in value)
        case ir.ShapeAsConstantBuffer():
            return scope.expr(value.expr)
        case ir.NoneAsConstantBuffer():
            return None
        case ir.TorchBindObject() | ir.GeneratorState() | OPAQUE_INPUT():
            held = scope.find(value.get_name())
            if held is not None:  # an input
                return held
            raise ConversionError(
                "FE302", f"{value.get_name()} is a {type(value).__name__}, which is not captured"
            )
        case ir.IRNode():
            return scope.reference(value)
        case _:
            return _atom(scope, value)


def _atom(scope: Scope, value: object) -> Arg:
    match value:
        case torch.dtype():
            return to_dtype(value)
        case torch.device():
            return to_device(value)
        case torch.layout():
            return to_layout(value)
        case torch.memory_format():
            return to_memory_format(value)
        case _ if isinstance(value, _SYMBOLIC):
            return scope.expr(value)
        case _:
            raise ConversionError(
                "FE302",
                f"an argument of type {type(value).__module__}.{type(value).__qualname__} has no typed form",
            )

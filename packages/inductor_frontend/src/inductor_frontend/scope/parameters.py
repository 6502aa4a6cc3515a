"""Types of graph inputs."""

from __future__ import annotations

import sympy
from torch._inductor import ir

from inductor_frontend.errors import ConversionError
from inductor_frontend.scope.scope import Scope
from inductor_frontend.torch_patches._compat import OPAQUE_INPUT
from wrapper_ir.expr import SymKind
from wrapper_ir.ir import OpaqueKind, OpaqueType, ScalarType, TensorType


def class_name(value: object) -> str:
    """Returns the class name of an opaque object; fake script objects have that of the real object."""
    return str(getattr(value, "script_class_name", type(value).__name__))


def param_type(scope: Scope, name: str) -> TensorType | ScalarType | OpaqueType:
    """Returns the type of the parameter of a graph input; raises ConversionError FE302."""
    node = scope.graph.graph_inputs[name]
    match node:
        case ir.TensorBox():
            return scope.result_type(scope.graph.graph_inputs_original[name].get_layout())
        case sympy.logic.boolalg.BooleanAtom() | bool():
            return ScalarType(SymKind.BOOL)
        case sympy.Expr():
            return ScalarType(SymKind.INT if node.is_integer else SymKind.FLOAT)
        case ir.TorchBindObject() | OPAQUE_INPUT():
            # Opaque to all ops, which at most pass it on, such as the mesh of a distributed tensor.
            return OpaqueType(OpaqueKind.TORCHBIND, class_name(node.value))
        case _:
            raise ConversionError("FE302", f"input {name} is a {type(node).__name__}, which is not captured")

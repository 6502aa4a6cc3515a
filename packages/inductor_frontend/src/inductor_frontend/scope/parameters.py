"""Types of graph inputs."""

from __future__ import annotations

import sympy
from torch._inductor import ir

from inductor_frontend.errors import ConversionError
from inductor_frontend.scope.scope import Scope
from inductor_frontend.torch_patches._compat import OPAQUE_INPUT
from wrapper_ir.expr import SymKind
from wrapper_ir.ir import OpaqueKind, OpaqueType, ScalarType, TensorType


def class_name(held: object) -> str:
    """The class of an opaque object; Inductor's stand-ins name the one that they stand for."""
    return str(getattr(held, "script_class_name", type(held).__name__))


def param_type(scope: Scope, name: str) -> TensorType | ScalarType | OpaqueType:
    """The type of the parameter that stands for a graph input; raises ConversionError FE302."""
    node = scope.graph.graph_inputs[name]
    if isinstance(node, ir.TensorBox):
        return scope.result_type(scope.graph.graph_inputs_original[name].get_layout())
    if isinstance(node, (sympy.logic.boolalg.BooleanAtom, bool)):
        return ScalarType(SymKind.BOOL)
    if isinstance(node, sympy.Expr):
        return ScalarType(SymKind.INT if node.is_integer else SymKind.FLOAT)
    if isinstance(node, (ir.TorchBindObject, OPAQUE_INPUT)):
        # Handed on at most, as the mesh of a distributed tensor is: no op here looks into it.
        return OpaqueType(OpaqueKind.TORCHBIND, class_name(node.value))
    raise ConversionError("FE302", f"input {name} is a {type(node).__name__}, which is not captured")

"""Operators in the text of modules."""

from __future__ import annotations

from py_wrapper import higher_order
from wrapper_ir import ir
from wrapper_ir.operators import native as native_operators
from wrapper_ir.operators import symmetric as symmetric_operators
from wrapper_ir.support.quoting import python_attribute, python_string
from wrapper_ir_torch import HIGHER_ORDER

LOOK_UP = "torch_operators"
"""The function of `wrapper_ir_torch` that returns the operators of a namespace."""


def overload_text(name: str) -> str:
    """Returns the Python expression of an operator."""
    namespace, operator, overload = ir.overload_path(name)
    if namespace == HIGHER_ORDER:
        return higher_order.callee_text(operator, overload)
    text = python_attribute("torch.ops", namespace)
    if is_imported(name):
        text = f"{LOOK_UP}({python_string(namespace)})"
    return python_attribute(python_attribute(text, operator), overload)


def is_imported(name: str) -> bool:
    """Returns whether an operator is registered on import of a module only, which `LOOK_UP` imports."""
    return ir.overload_path(name)[0] in (symmetric_operators.NAMESPACE, native_operators.NAMESPACE)


def short_overload(name: str) -> str:
    """Returns a readable variable name for an operator."""
    namespace, operator, overload = ir.overload_path(name)
    if namespace == HIGHER_ORDER:
        return higher_order.callee_name(operator, overload)
    return operator if overload == "default" else f"{operator}_{overload}"

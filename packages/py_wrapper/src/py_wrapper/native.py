"""Operators in the text of modules."""

from __future__ import annotations

from py_wrapper import higher_order
from wrapper_ir.quoting import python_attribute
from wrapper_ir.schemas import overload_path
from wrapper_ir_torch import HIGHER_ORDER

__all__ = ["overload_text", "short_overload"]


def overload_text(name: str) -> str:
    """The Python expression of an operator."""
    namespace, operator, overload = overload_path(name)
    if namespace == HIGHER_ORDER:
        return higher_order.callee_text(operator, overload)
    return python_attribute(python_attribute(python_attribute("torch.ops", namespace), operator), overload)


def short_overload(name: str) -> str:
    """A readable name for an operator, as a Python variable."""
    namespace, operator, overload = overload_path(name)
    if namespace == HIGHER_ORDER:
        return higher_order.callee_name(operator, overload)
    return operator if overload == "default" else f"{operator}_{overload}"

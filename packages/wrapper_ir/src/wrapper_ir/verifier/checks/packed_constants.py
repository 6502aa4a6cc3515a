"""Checks packed constants against their layouts and originals."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper_ir import ir
from wrapper_ir.expr import Int
from wrapper_ir.verifier.findings import Findings


def original_name(constant: ir.Constant) -> str:
    """Returns the name of the original of a packed constant; of others, the name of its value."""
    return constant.value.name if constant.packing is None else constant.packing.original


def check_packed(constants: Sequence[ir.Constant], findings: Findings) -> None:
    """WIR283."""
    first: dict[str, ir.Constant] = {}
    for constant in sorted(constants, key=lambda c: c.packing is not None):
        other = first.setdefault(original_name(constant), constant)
        fault = _fault(constant)
        if not fault and other is not constant:
            fault = _difference(constant, other)
        if fault:
            findings.add("WIR283", f"%{constant.value.name}: {fault}")


def _fault(constant: ir.Constant) -> str:
    type, packing = constant.value.type, constant.packing
    if packing is None or not isinstance(type, ir.TensorType):  # WIR009
        return ""
    if constant.mutable or constant.storage:
        return "a packed constant is immutable, and has a separate storage"
    if packing.original == constant.value.name:
        return "a packed constant is not its own original"
    fault = packing.fault(type.dtype)
    if fault:
        return fault
    sizes = tuple(map(Int, packing.packed_sizes))
    if type.sizes != sizes or not ir.is_contiguous(type.sizes, type.strides):
        return f"a constant of this packing is contiguous, with the sizes {list(packing.packed_sizes)}"
    return ""


def _difference(constant: ir.Constant, other: ir.Constant) -> str:
    """Returns how a packed constant's description differs from its original, or from the first packed one."""
    type, theirs = constant.value.type, other.value.type
    if constant.packing is None or not isinstance(type, ir.TensorType):
        return ""  # WIR006, WIR009
    if other.packing is not None and isinstance(theirs, ir.TensorType):
        theirs = other.packing.original_type(theirs)
    if constant.packing.original_type(type) != theirs or constant.names != other.names or other.mutable:
        return f"its original differs from %{other.value.name} in type, names or mutability"
    return ""

"""Results of library calls: taken out of nested results, and checked."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from torch._inductor import ir
from torch._ops import OpOverload

from inductor_frontend.operators.undefined import is_undefined
from inductor_frontend.scope.parameters import class_name
from inductor_frontend.scope.scope import Scope
from inductor_frontend.torch_patches._compat import OPAQUE_MULTI_OUTPUT
from wrapper_ir.expr import SymKind
from wrapper_ir.ir import (
    AssertLayout,
    DType,
    OpaqueKind,
    OpaqueType,
    ScalarType,
    TensorType,
    Value,
    is_results,
    is_tensor,
)

_ALIGNMENT = 16
# Inductor names a pattern's replacement by its function object, whose place in memory is not a fact about the program.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

_WITH_POSITIONS = ("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive")
"""Operators whose second and third results hold whole numbers. Torch 2.11 takes them for elements of the first."""


def multi_output(scope: Scope, node: ir.MultiOutput) -> None:
    """One result of a call with several; nothing to take out where it is bound already."""
    _bind_output(scope, node)
    if not node.skip_size_stride_alignment_checks:
        check_result(scope, node)


def _bind_output(scope: Scope, node: ir.MultiOutput) -> None:
    name = node.get_name()
    if scope.find(name) is not None:
        return
    if is_undefined(node):
        scope.undefined.add(name)
        return
    source = scope.value(node.input_name(0))
    assert is_results(source)  # the call above it gives several
    path = tuple(key for _, key in node.indices)
    scope.bind(name, scope.function.unpack(name, source, path, output_type(scope, node)))


def output_type(scope: Scope, node: ir.MultiOutput) -> TensorType | OpaqueType:
    """The type of one result of a call: a tensor's, or that of an object which other operators take."""
    if isinstance(node, OPAQUE_MULTI_OUTPUT):
        return OpaqueType(OpaqueKind.TORCHBIND, class_name(node.opaque_example_value))
    made = scope.result_type(node.get_layout())
    called = getattr(node.inputs[0], "op_overload", None)
    if isinstance(called, OpOverload) and called._schema.name in _WITH_POSITIONS and node.indices[0][1] > 0:
        return replace(made, dtype=DType.I64)
    return made


def unpack_all(scope: Scope, outputs: Any) -> None:  # Any: Inductor nests nodes in lists and tuples
    """Takes every result of a call out at once, unchecked: symbols are read from them next."""
    if isinstance(outputs, (list, tuple)):
        for item in outputs:
            unpack_all(scope, item)
    elif isinstance(outputs, ir.MultiOutput):
        _bind_output(scope, outputs)


def unpack_number(scope: Scope, node: ir.Buffer, result: Value, path: tuple[int, ...]) -> Value:
    """A whole number inside a nested result."""
    assert is_results(result)  # there is a path into it
    name = "_".join((node.get_name(), *(str(step) for step in path)))
    return scope.function.unpack(name, result, path, ScalarType(SymKind.INT))


def check_result(scope: Scope, node: ir.ExternKernel) -> None:
    """The check that a call returned the layout which Inductor assumes."""
    name = node.get_name()
    value = scope.find(name)
    if not scope.options.layout_asserts or not is_tensor(value):
        return
    if any(scope.expr(0) is size for size in value.type.sizes):
        return  # strides of empty tensors are not compared
    aligned = name not in scope.graph.unaligned_buffers
    scope.function.append(
        AssertLayout(
            tensors=(value,),
            sizes=(value.type.sizes,),
            strides=(value.type.strides,),
            alignment=_ALIGNMENT if aligned else 0,
            message=_ADDRESS.sub("", node.get_op_name()),
            prov=scope.function.prov,
        )
    )


def allocated_output(scope: Scope, node: ir.MultiOutput) -> None:
    """One out of an out variant with several: the buffer is filled already."""
    check_result(scope, node)

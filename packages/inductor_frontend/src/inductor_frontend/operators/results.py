"""Binds results of library calls: unpacks nested results and checks their layouts."""

from __future__ import annotations

import re
from dataclasses import replace

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
# Inductor names a pattern's replacement by the repr of its function, which contains an address.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

_WITH_POSITIONS = ("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive")
"""Operators whose second and third results are integers. Torch 2.11 assumes the dtype of the first result."""


def multi_output(scope: Scope, node: ir.MultiOutput) -> None:
    """Emits the Unpack and the check of one of several results of a call. Nothing is unpacked if it is
    already bound."""
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
    assert is_results(source)  # the call before it returns several
    path = tuple(key for _, key in node.indices)
    scope.bind(name, scope.function.unpack(name, source, path, output_type(scope, node)))


def output_type(scope: Scope, node: ir.MultiOutput) -> TensorType | OpaqueType:
    """Returns the type of one result of a call: a tensor, or an opaque object that other operators accept."""
    if isinstance(node, OPAQUE_MULTI_OUTPUT):
        return OpaqueType(OpaqueKind.TORCHBIND, class_name(node.opaque_example_value))
    type = scope.result_type(node.get_layout())
    operator = getattr(node.inputs[0], "op_overload", None)
    if (
        isinstance(operator, OpOverload)
        and operator._schema.name in _WITH_POSITIONS
        and node.indices[0][1] > 0
    ):
        return replace(type, dtype=DType.I64)
    return type


def unpack_all(scope: Scope, outputs: object) -> None:  # Inductor nests nodes in lists and tuples
    """Unpacks every result of a call, unchecked: symbols are read from the results next."""
    if isinstance(outputs, (list, tuple)):
        for item in outputs:
            unpack_all(scope, item)
    elif isinstance(outputs, ir.MultiOutput):
        _bind_output(scope, outputs)


def unpack_number(scope: Scope, node: ir.Buffer, result: Value, path: tuple[int, ...]) -> Value:
    """Unpacks an integer from a nested result."""
    assert is_results(result)  # a path leads into it
    name = "_".join((node.get_name(), *(str(step) for step in path)))
    return scope.function.unpack(name, result, path, ScalarType(SymKind.INT))


def check_result(scope: Scope, node: ir.ExternKernel) -> None:
    """Emits a check that a call returned the layout that Inductor assumes."""
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
    """Emits the check of one out argument of several: the call has already written the buffer."""
    check_result(scope, node)

"""Converts arguments of library calls: nested Python structures of Inductor's nodes to typed IR arguments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import sympy
import torch
from torch import fx
from torch._inductor import ir
from torch.fx.node import map_aggregate

from inductor_frontend.convert import literal
from inductor_frontend.errors import ConversionError
from inductor_frontend.scope.scope import Scope
from inductor_frontend.torch_patches._compat import OPAQUE_INPUT
from wrapper_ir.ir import Arg

# Any in this file: Inductor stores nodes, numbers and nested lists of both in one list.


def to_arg(scope: Scope, value: object) -> Arg:
    """Converts one argument, keeping its structure. Raises ConversionError FE302 for a value without a typed
    form."""
    match value:
        case list() | tuple():
            return tuple(to_arg(scope, v) for v in value)
        case ir.ShapeAsConstantBuffer():
            return scope.expr(value.expr)
        case ir.NoneAsConstantBuffer():
            return None
        case ir.TorchBindObject() | ir.GeneratorState() | OPAQUE_INPUT():
            opaque = scope.find(value.get_name())
            if opaque is not None:  # an input
                return opaque
            raise ConversionError(
                "FE302", f"{value.get_name()} is a {type(value).__name__}, which is not captured"
            )
        case ir.IRNode() if scope.undefined and value.maybe_get_name() in scope.undefined:
            return None
        case ir.IRNode():
            return scope.reference(value)
        case sympy.Basic() | torch.SymInt() | torch.SymFloat() | torch.SymBool():
            return scope.expr(value)
        case _:
            return literal(value)


def own_arguments(node: ir.ExternKernelOut) -> tuple[Sequence[object], dict[str, object]]:
    """Returns the arguments of an out variant without its out argument, by position and by name.

    Inductor stores tensors and other arguments in two lists. For its own operators, tensors come first. For a
    custom operator, the order is that of the schema. If the schema does not determine which arguments are
    tensors, order and nesting are those of the source node's arguments. Raises ConversionError FE301 if
    neither determines them.
    """
    positional = (*node.inputs, *node.constant_args)
    source = node.get_origin_node()  # for a mutated buffer: the operator that mutated it
    if source is None or not _is_custom(node.op_overload):
        return positional, dict(node.kwargs)
    by_schema = None if node.kwargs else _by_schema(node)
    if by_schema is not None:
        return by_schema, {}
    tensors: list[Any] = [*reversed(node.inputs)]
    others: list[Any] = [*reversed(node.constant_args)]
    arguments: Any = None
    with suppress(IndexError):
        arguments = map_aggregate(
            (source.args, source.kwargs), lambda leaf: (tensors if _is_tensor(leaf) else others).pop()
        )
    if arguments is None or tensors or others:
        raise ConversionError(
            "FE301",
            f"the order of the arguments of {source.target} is ambiguous",
            hint="remove the operator's out variant (the tag torch.Tag.out)",
        )
    args, kwargs = arguments
    return args, kwargs


def _by_schema(node: ir.ExternKernelOut) -> list[object] | None:
    """Returns the arguments by position if the schema alone determines which of them are tensors; None
    otherwise."""
    assert isinstance(node.op_overload, torch._ops.OpOverload)
    declared = [
        a for a in node.op_overload._schema.arguments if a.alias_info is None or not a.alias_info.is_write
    ]
    if any("Tensor" in str(a.type) and not isinstance(a.type, torch.TensorType) for a in declared):
        return None
    tensors, others = [*reversed(node.inputs)], [*reversed(node.constant_args)]
    arguments: list[object] = []
    for argument in declared[: len(tensors) + len(others)]:
        rest: list[Any] = tensors if isinstance(argument.type, torch.TensorType) else others
        if not rest:
            return None
        arguments.append(rest.pop())
    return None if tensors or others else arguments


def _is_custom(target: object) -> bool:
    return isinstance(target, torch._ops.OpOverload) and not torch._library.utils.is_builtin(target)


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, fx.Node) and isinstance(leaf.meta.get("val"), torch.Tensor)

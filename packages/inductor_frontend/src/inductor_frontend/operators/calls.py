"""Emits library calls: out variants, allocating calls with one or several results, and calls that only
mutate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._ops import HigherOrderOperator, OpOverload

from inductor_frontend.operators.higher_order import print_def, random_def, takes_operator
from inductor_frontend.operators.multicast import refuse_multicast
from inductor_frontend.operators.results import check_result, output_type
from inductor_frontend.operators.schemas import extern_def, out_overload, overload_of, scalar_result
from inductor_frontend.operators.unbacked import define_unbacked
from inductor_frontend.scope.arguments import own_arguments, to_arg
from inductor_frontend.scope.memory import own_storage
from inductor_frontend.scope.scope import Scope
from wrapper_ir.ir import (
    Arg,
    Copy,
    ExternDef,
    OpaqueType,
    ScalarType,
    TensorType,
    TupleType,
    Value,
    as_tensor,
)


def _op(scope: Scope, overload: OpOverload, args: Iterable[object], kwargs: Mapping[str, object]) -> None:
    """Emits a call without results."""
    scope.function.call(
        extern_def(overload),
        tuple(to_arg(scope, a) for a in args),
        tuple((k, to_arg(scope, v)) for k, v in kwargs.items()),
    )


def call_out(scope: Scope, node: ir.ExternKernelOut) -> None:
    """Emits an out variant that writes to the node's own buffer."""
    refuse_multicast(node)
    name = node.python_kernel_name or ""
    out = node.output_view if node.output_view is not None else node
    if name.endswith("_mm_plus_mm"):
        # Inductor's helper, which calls two operators.
        a, b, c, d = node.inputs
        _op(scope, torch.ops.aten.mm.out, (a, b), {"out": out})
        _op(scope, torch.ops.aten.addmm.out, (out, c, d), {"out": out})
        return
    overload, out_name = out_overload(node)
    args, kwargs = own_arguments(node)
    _op(scope, overload, args, {**kwargs, out_name: out})


def call_out_many(scope: Scope, node: Any) -> None:  # Any: a class that torch 2.11 lacks
    """Emits an out variant with several out arguments, and allocates the buffers that they write.

    Unused buffers are allocated too, because the operator writes all of them.
    """
    outs = dict(zip(node.out_arg_names, node.out_variant_output_nodes))
    for out in outs.values():
        if scope.find(out.get_name()) is None:
            own_storage(scope, out)
    args, kwargs = fallback_args(node)
    _op(scope, overload_of(node), args, {**kwargs, **outs})


def call_alloc(scope: Scope, node: ir.ExternKernelAlloc) -> None:
    """Emits a call that allocates its result."""
    args = (*node.inputs, *node.constant_args)
    _call_result(scope, node, args, node.kwargs)
    _check_own(scope, node)


def call_fallback(scope: Scope, node: ir.FallbackKernel) -> None:
    """Emits a call of an operator that Inductor does not generate code for.

    Unbacked sizes of the result are defined before the result is checked against them.
    """
    refuse_multicast(node)
    args, kwargs = fallback_args(node)
    result = _call_result(scope, node, args, kwargs)
    define_unbacked(scope, node, result)
    _check_own(scope, node)


def fallback_args(node: ir.FallbackKernel) -> tuple[Sequence[object], dict[str, object]]:
    """Returns the arguments of a call in their original structure, by position and by name."""
    args, kwargs = node.unflatten_args(node.inputs, node.constant_args)
    return args, {**node.kwargs, **kwargs}


def _call_result(
    scope: Scope, node: ir.ExternKernelAlloc, args: Iterable[object], kwargs: Mapping[str, object]
) -> Value | None:
    """Emits a call and binds its result. A fallback with a single tensor result needs no Unpack."""
    name, type = _result(scope, node)
    keywords = {k: to_arg(scope, v) for k, v in kwargs.items()}
    extern, positional = _callee(scope, node, [*args], keywords)
    result = scope.function.call(extern, positional, tuple(keywords.items()), name=name, type=type)
    if result is not None:
        scope.bind(name, result)
    return result


def _check_own(scope: Scope, node: ir.ExternKernelAlloc) -> None:
    """Checks the result that is the node itself; other results are separate nodes."""
    if isinstance(node.layout, ir.Layout):
        check_result(scope, node)


def _callee(
    scope: Scope, node: ir.ExternKernelAlloc, args: list[object], kwargs: Mapping[str, Arg]
) -> tuple[ExternDef, list[Arg]]:
    """Returns the operator that a node calls and its positional arguments; raises ConversionError FE301."""
    operator = node.op_overload
    if not isinstance(operator, HigherOrderOperator):
        return extern_def(overload_of(node)), [to_arg(scope, a) for a in args]
    position = takes_operator(operator)
    if position is not None:
        inner = args.pop(position)
        assert isinstance(inner, OpOverload)
        return random_def(operator, inner), [to_arg(scope, a) for a in args]
    if operator is not torch.ops.higher_order.print:
        overload_of(node)  # raises
    positional = [to_arg(scope, a) for a in args]
    return print_def(positional, kwargs), positional


def _result(
    scope: Scope, node: ir.ExternKernelAlloc
) -> tuple[str, TensorType | OpaqueType | ScalarType | TupleType | None]:
    """Returns name and type of a call's result."""
    match node.layout:
        case ir.NoneLayout():
            return node.get_name(), None
        case ir.Layout() as layout:
            return node.get_name(), scope.result_type(layout)
        case _:
            pass
    outputs: Sequence[object] = getattr(node, "outputs", ())  # set by Inductor after construction
    only = outputs[0] if len(outputs) == 1 else None
    if isinstance(only, ir.MultiOutput) and not only.indices:
        return only.get_name(), output_type(scope, only)
    return node.get_name(), scalar_result(node.op_overload) or TupleType()


def call_mutating(scope: Scope, node: ir.ExternKernel) -> None:
    """Emits a call that mutates its first argument."""
    _op(scope, overload_of(node), (*node.inputs, *node.constant_args), {})


def scatter(scope: Scope, node: ir.ScatterFallback) -> None:
    """Emits an in-place scatter; the source is a tensor or a number."""
    dim = node.constant_args[0]
    x, index, *rest = node.inputs
    src: object = rest[0] if node.src_is_tensor else node.constant_args[1]
    overload = overload_of(node)
    parameters = {a.name for a in overload._schema.arguments}
    positional: list[object] = [x, dim, index, src]
    kwargs: dict[str, object] = {}
    reduce = node.kwargs["reduce"]
    if overload._schema.name.endswith("scatter_reduce_"):
        positional.append(reduce)
        kwargs["include_self"] = node.kwargs["include_self"]
    elif reduce is not None and "reduce" in parameters:
        kwargs["reduce"] = reduce
    _op(scope, overload, positional, kwargs)


def index_put(scope: Scope, node: ir.IndexPutFallback) -> None:
    """Emits an in-place index_put with optional indices."""
    x, values, *tensors = node.inputs
    remaining = iter(tensors)
    indices = [None if i is None else next(remaining) for i in node.indices]
    _op(scope, torch.ops.aten.index_put_.default, (x, indices, values, node.constant_args[0]), {})


def inplace_copy(scope: Scope, node: ir.ExternKernel) -> None:
    """Emits a copy to an existing tensor, or to another device."""
    non_blocking = bool(node.constant_args[0])
    if isinstance(node, ir.DeviceCopy):
        out: Arg = to_arg(scope, node.output_view if node.output_view is not None else node)
        src = to_arg(scope, node.inputs[0])
    else:
        out, src = (to_arg(scope, x) for x in node.inputs)
    scope.function.append(
        Copy(dst=as_tensor(out), src=as_tensor(src), non_blocking=non_blocking, prov=scope.function.prov)
    )

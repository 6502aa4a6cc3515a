"""Extern nodes by class: the table of every Inductor class that capture can translate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import ir

from inductor_frontend.errors import ConversionError, HookError, at_node
from inductor_frontend.operators import calls
from inductor_frontend.operators.collectives import start_collective, wait_collective
from inductor_frontend.operators.onednn import ONEDNN_HANDLERS
from inductor_frontend.operators.results import allocated_output, multi_output
from inductor_frontend.operators.unbacked import assert_scalar, dynamic_scalar, select_offset, slice_size
from inductor_frontend.record.events import CallNode
from inductor_frontend.scope.scope import Scope
from inductor_frontend.scope.streams import is_order
from inductor_frontend.torch_patches._compat import (
    ALLOCATING_MULTI_OUTPUT,
    EXTERN_MULTI_OUT,
    SHALLOW_COPY,
    SWITCH,
)
from inductor_frontend.translate.control import invoke_subgraph, switch, while_loop
from wrapper_ir.ir import ResizeStorage, SetStorage, as_tensor

Handler = Callable[[Scope, Any], None]  # Any: each handler accepts a different node class


def _resize(scope: Scope, node: ir.ResizeStorageBytes) -> None:
    target, nbytes = node.inputs[0], node.constant_args[0]
    assert isinstance(target, ir.IRNode)
    scope.function.append(
        ResizeStorage(
            target=as_tensor(scope.reference(target)), nbytes=scope.expr(nbytes), prov=scope.function.prov
        )
    )


def fallback(scope: Scope, node: ir.FallbackKernel) -> None:
    """Emits an operator that Inductor does not generate code for, or that orders streams."""
    if is_order(node):
        scope.streams.order(node)
    else:
        calls.call_fallback(scope, node)


def _set_storage(scope: Scope, node: ir.ExternKernelAlloc) -> None:
    """Emits `x.set_(y)`, and `x.data = y` of the same type, for which torch has a separate class since
    2.14."""
    target, source = (as_tensor(scope.reference(x)) for x in node.inputs if isinstance(x, ir.IRNode))
    scope.function.append(SetStorage(target=target, source=source, prov=scope.function.prov))
    scope.bind(node.get_name(), target)


HANDLERS: dict[type[ir.ExternKernel], Handler] = {
    ir.ExternKernelOut: calls.call_out,
    ir.ExternKernelAlloc: calls.call_alloc,
    EXTERN_MULTI_OUT: calls.call_out_many,
    ir.FallbackKernel: fallback,
    ir.MultiOutput: multi_output,
    ALLOCATING_MULTI_OUTPUT: allocated_output,
    ir.InplaceBernoulliFallback: calls.call_mutating,
    ir.InplaceCopyFallback: calls.inplace_copy,
    ir.DeviceCopy: calls.inplace_copy,
    ir.ScatterFallback: calls.scatter,
    ir.IndexPutFallback: calls.index_put,
    ir.ResizeStorageBytes: _resize,
    ir.SetSourceTensorKernel: _set_storage,
    SHALLOW_COPY: _set_storage,
    ir.DynamicScalar: dynamic_scalar,
    ir.DynamicSelectStorageOffset: select_offset,
    ir.DynamicSliceSize: slice_size,
    ir.AssertScalar: assert_scalar,
    **ONEDNN_HANDLERS,
    SWITCH: switch,
    ir.WhileLoop: while_loop,
    ir.InvokeSubgraph: invoke_subgraph,
    ir._CollectiveKernel: start_collective,
    ir._AllReduceKernel: start_collective,
    ir._AllReduce_Kernel: start_collective,
    ir._WaitKernel: wait_collective,
}


_OUTSIDE = "keep this operator outside the captured part, or write it in terms of supported operators"
_INSTEAD: dict[type[ir.ExternKernel], str] = {
    ir.TMADescriptorExperimental: "triton has removed such descriptors (create_1d_tma_descriptor, "
    "create_2d_tma_descriptor): use TensorDescriptor of triton.tools.tensor_descriptor"
}
"""Alternatives to classes that capture refuses, if one exists."""


def handler_of(cls: type[ir.ExternKernel]) -> Handler | None:
    """Returns the handler of a node class: its own or that of the nearest base.

    A base behind a class with its own `codegen` is not considered. Returns None for an unknown class.
    """
    for base in cls.__mro__:
        if base in HANDLERS:
            return HANDLERS[base]
        if "codegen" in vars(base):
            return None
    return None


def call_node(scope: Scope, event: CallNode) -> None:
    """Translates one extern node; raises HookError FE203 for unknown classes, and adds the place to a
    ConversionError."""
    node = event.node
    scope.function.prov = scope.provenance.read(node.get_origins(), node.get_name() or "")
    handler = handler_of(type(node))
    place = at_node(node.get_name() or "", ", ".join(str(o.target) for o in node.get_origins()))
    if handler is None:
        raise HookError(
            "FE203",
            f"extern node class {type(node).__name__} is not captured{place}",
            hint=_INSTEAD.get(type(node), _OUTSIDE),
        )
    try:
        handler(scope, node)
    except ConversionError as error:
        raise ConversionError(error.code, error.message + place, hint=error.hint) from error

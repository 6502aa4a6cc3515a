"""Functional collectives: one node starts them, others wait for their results.

Inductor tracks operations in flight by storage, and waits by storage. Here each result is waited for once, by
its own `Wait`. From then on, Inductor's buffer name refers to the finished tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch._inductor import ir
from torch._ops import OpOverload

from inductor_frontend.errors import ConversionError, at_node
from inductor_frontend.operators.calls import call_fallback, fallback_args
from inductor_frontend.operators.results import check_result
from inductor_frontend.operators.schemas import extern_def, overload_of
from inductor_frontend.record.wrapper import buffer_under
from inductor_frontend.scope.arguments import to_arg
from inductor_frontend.scope.in_flight import Flight
from inductor_frontend.scope.scope import Scope
from wrapper_ir.ir import Arg, ExternDef, TensorType, Value, as_tensor, is_tensor, parse_schema

_CODE = "FE310"
_STARTING = "_c10d_functional"
"""Namespace of the operators that return before they complete."""
_STARTING_OVER_SYMMETRIC = frozenset(
    {"symm_mem::_low_contention_all_gather", "symm_mem::_low_contention_reduce_scatter"}
)
"""Other such operators: they use copy engines, and allocate symmetric memory themselves."""
_BLOCKING = frozenset({"_dtensor::shard_dim_alltoall"})
"""Operators that Inductor lowers like collectives, but that complete before they return."""
_BATCH = "_c10d_functional::batch_p2p_ops"
_RECEIVE = "_c10d_functional::irecv"
_PEER = frozenset({"_c10d_functional::isend", _RECEIVE})
"""Operators between two processes: the peer may execute other operations first."""


def start_collective(scope: Scope, node: ir._CollectiveKernel) -> None:
    """Emits a CollectiveStart, or a plain call for a blocking collective. Raises ConversionError FE310."""
    overload = overload_of(node)
    name = overload._schema.name
    if name in _BLOCKING:
        call_fallback(scope, node)
        return
    _refuse(overload)
    args, kwargs = fallback_args(node)
    group = _group(overload, args, kwargs)
    if name == _RECEIVE:  # its destination is an out argument in `_TRUE_SCHEMAS`, hence keyword-only
        args, kwargs = (), {**dict(zip((a.name for a in overload._schema.arguments), args)), **kwargs}
    extern = extern_def(overload)
    positional = tuple(to_arg(scope, a) for a in args)
    keywords = tuple((k, to_arg(scope, v)) for k, v in kwargs.items())
    operands = _written(extern, positional, keywords) if isinstance(node.layout, ir.NoneLayout) else ()
    results = [(f"{x.name}.h", x.type) for x in operands] or _fresh_results(scope, node)
    handles = scope.function.collective(extern, positional, keywords, group=group, results=results)
    if operands:
        _bind_in_place(scope, node, operands, handles)
    else:
        for handle, (buffer, _) in zip(handles, results):
            scope.bind(buffer, handle)
            scope.in_flight.add(handle, Flight(handle, (buffer,), name))
        if isinstance(node.layout, ir.Layout):
            check_result(scope, node)


def _refuse(overload: OpOverload) -> None:
    name = overload._schema.name
    if name == _BATCH:
        raise ConversionError(
            _CODE,
            f"{name} sends and receives in one call, whose schema does not say which tensors it writes",
            hint="send and receive one by one: torch.distributed.isend and irecv",
        )
    if overload.namespace != _STARTING and name not in _STARTING_OVER_SYMMETRIC:
        raise ConversionError(
            _CODE,
            f"it is unknown whether {name} returns before it completes",
            hint=f"use the collectives of torch.ops.{_STARTING}",
        )


def _group(overload: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    names = (a.name for a in overload._schema.arguments)
    group = {**dict(zip(names, args)), **kwargs}.get("group_name")
    if not isinstance(group, str):
        raise ConversionError(
            _CODE,
            f"{overload._schema.name} is given a process group as {type(group).__name__}, not by name",
            hint="an artifact can only refer to a group by its name: pass group.group_name",
        )
    return group


def _written(
    extern: ExternDef, args: Sequence[Arg], kwargs: Sequence[tuple[str, Arg]]
) -> tuple[Value[TensorType], ...]:
    """Returns the tensors that the operator writes, which it also returns."""
    declared = parse_schema(extern.schema).args
    operands = dict(zip((a.name for a in declared), args)) | dict(kwargs)
    tensors: list[Value[TensorType]] = []
    for argument in declared:
        if argument.written:
            value = operands[argument.name]
            tensors += [v for v in (value if isinstance(value, tuple) else (value,)) if is_tensor(v)]
    return tuple(tensors)


def _fresh_results(scope: Scope, node: ir._CollectiveKernel) -> list[tuple[str, TensorType]]:
    """Returns names and types of tensors that the operator allocates."""
    if isinstance(node.layout, ir.Layout):
        return [(node.get_name(), scope.result_type(node.layout))]
    outputs: Sequence[ir.MultiOutput] = node.outputs
    return [(out.get_name(), scope.result_type(out.get_layout())) for out in outputs]


def _bind_in_place(
    scope: Scope, node: ir._CollectiveKernel, operands: Sequence[Value], handles: Sequence[Value]
) -> None:
    """Records that the operands' buffers are in flight. Views of them are not rebound."""
    names: dict[Value, list[str]] = {}
    for x in (*node.inputs, *node.kwargs.values()):
        if isinstance(x, ir.IRNode) and (name := _whole_buffer(x)):
            names.setdefault(scope.value(name), []).append(name)
    for operand, handle in zip(operands, handles, strict=True):
        scope.same_storage(handle, operand)
        flight = Flight(handle, tuple(names.get(operand, ())), overload_of(node)._schema.name)
        scope.in_flight.add(scope.root(handle), flight)


def _whole_buffer(node: ir.IRNode) -> str:
    """Returns the name of a buffer, without boxes around it; '' for a view."""
    while isinstance(node, ir.MutableBox):
        node = node.data
    return node.get_name() if isinstance(node, ir.Buffer) else ""


def wait_collective(scope: Scope, node: ir._WaitKernel) -> None:
    """Emits a Wait for each operation in flight over the storages of the node's inputs. Since 2.14, a node
    may have several.

    For a graph input it is unknown whether the caller left it in flight, so `wait_tensor` is called. Any
    other tensor that is not in flight was waited for before.
    """
    for source in node.inputs:
        assert isinstance(source, ir.IRNode)
        buffer = buffer_under(source)
        flights = scope.in_flight.land(scope.root(scope.value(buffer.get_name())))
        for flight in flights:
            _wait(scope, flight)
        constant = scope.constants.find(buffer.get_name()) is not None
        if not flights and isinstance(buffer, ir.InputBuffer) and not constant:
            wait = extern_def(torch.ops._c10d_functional.wait_tensor.default)
            scope.function.call(wait, (scope.reference(source),))


def _wait(scope: Scope, flight: Flight) -> None:
    handle = flight.handle
    finished = scope.function.wait(f"{handle.name.removesuffix('.h')}.w", as_tensor(handle))
    scope.same_storage(finished, handle)
    for name in flight.names:
        scope.bind(name, finished)


def wait_for_rest(scope: Scope) -> None:
    """Emits a Wait at the end of a function for each operation that is still in flight.

    The IR returns nothing in flight, and a later wait of the caller returns at once. Raises ConversionError
    FE310 for messages between two processes: the peer may receive them only after an operation that follows
    here.
    """
    for flight in scope.in_flight.rest():
        if flight.by in _PEER:
            raise ConversionError(
                _CODE,
                f"%{flight.handle.name} of {flight.by} is never waited for{at_node(scope.function.name, '')}",
                hint="wait for it in the captured part: .wait() of what isend and irecv return",
            )
        _wait(scope, flight)

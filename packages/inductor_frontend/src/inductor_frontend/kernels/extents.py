"""The memory that a launch may access through its pointers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inductor_frontend.record.events import BufferArg, LaunchArg
from inductor_frontend.scope.scope import Scope
from wrapper_ir import ir
from wrapper_ir.expr import Expr


def extents_of(scope: Scope, args: Sequence[ir.Arg], sources: Sequence[LaunchArg | None]) -> tuple[Expr, ...]:
    """Returns the number of bytes that a kernel may access through each pointer; `sources` are the recorded
    arguments.

    Extents are always explicit: the loops in the kernel's source are constant, so a later change of a layout
    must not increase the extent.
    """
    padded = scope.graph.buffer_to_padded_size
    extents: list[Expr] = []
    for arg, source in zip(args, sources, strict=True):
        if ir.is_tensor(arg):
            name = source.name if isinstance(source, BufferArg) else ""
            extents.append(_padded(scope, name, arg.type) if name in padded else ir.extent_bytes(arg.type))
    return tuple(extents)


def _padded(scope: Scope, name: str, type: ir.TensorType) -> Expr:
    graph = scope.graph
    elements = graph.get_allocation_storage_size(graph.name_to_buffer[name])
    return scope.expr(elements * type.dtype.itemsize)


def clear_fresh(scope: Scope, root: ir.Value) -> None:
    """Zeroes a storage that no op has used since its allocation.

    A kernel may write only a part of it. Inductor leaves the rest uninitialized; here every byte has a value.
    """
    ops = scope.function.ops
    for position in range(len(ops) - 1, -1, -1):  # in most cases a recent op has used it
        match ops[position]:
            case ir.AllocStorage() as op if op.result == root:
                if op.zero is ir.ZeroMode.NONE:
                    ops[position] = replace(op, zero=ir.ZeroMode.CALL)
                return
            case ir.AllocStorage() | ir.View():
                continue
            case op if any(scope.root(v) == root for v in ir.operands(op)):
                return
            case _:
                continue

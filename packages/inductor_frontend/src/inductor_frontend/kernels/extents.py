"""What a launch says about the memory of its pointers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inductor_frontend.record.events import BufferArg, LaunchArg
from inductor_frontend.scope.scope import Scope
from wrapper_ir import ir
from wrapper_ir.expr import Expr


def extents_of(scope: Scope, args: Sequence[ir.Arg], given: Sequence[LaunchArg | None]) -> tuple[Expr, ...]:
    """Bytes that a kernel may touch through each pointer; `given` are the recorded arguments. Always stated: the
    loops in the source are fixed, so that a later change of a layout cannot widen what is safe to pass."""
    padded = scope.graph.buffer_to_padded_size
    extents: list[Expr] = []
    for arg, source in zip(args, given, strict=True):
        if isinstance(arg, ir.Value) and ir.is_tensor(arg):
            name = source.name if isinstance(source, BufferArg) else ""
            extents.append(_padded(scope, name, arg.type) if name in padded else ir.extent_bytes(arg.type))
    return tuple(extents)


def _padded(scope: Scope, name: str, type: ir.TensorType) -> Expr:
    graph = scope.graph
    elements = graph.get_allocation_storage_size(graph.name_to_buffer[name])
    return scope.expr(elements * type.dtype.itemsize)


def clear_fresh(scope: Scope, root: ir.Value) -> None:
    """Zeroes a storage that nothing has used since it was allocated. A kernel that fills a part of it keeps the
    rest, which Inductor leaves as it finds it: here, every byte that is kept has a value."""
    ops = scope.function.ops
    for position in range(len(ops) - 1, -1, -1):  # what was used was mostly used just before
        op = ops[position]
        if isinstance(op, ir.AllocStorage):
            if op.result == root:
                if op.zero is ir.ZeroMode.NONE:
                    ops[position] = replace(op, zero=ir.ZeroMode.CALL)
                return
        elif not isinstance(op, ir.View) and any(scope.root(v) == root for v in ir.operands(op)):
            return

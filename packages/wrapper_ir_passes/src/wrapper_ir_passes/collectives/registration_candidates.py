"""Buffers of collectives in memory that is registered with their group, candidates for it, and reasons
against the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.analysis.symmetric import named_arguments
from wrapper_ir.expr import Expr, as_int
from wrapper_ir_passes.collectives.collective_operands import (
    origin_of,
    why_no_group_memory,
    why_storage_stays,
)
from wrapper_ir_passes.collectives.escapes import EscapeKind, escapes

_LIBRARY = "_c10d_functional::"
OUT_VARIANTS = {
    f"{_LIBRARY}all_gather_into_tensor": f"{_LIBRARY}all_gather_into_tensor_out",
    f"{_LIBRARY}reduce_scatter_tensor": f"{_LIBRARY}reduce_scatter_tensor_out",
}
"""Collectives that allocate their result, and their variants that write into a given one."""


@dataclasses.dataclass(frozen=True, slots=True)
class RegistrationLimits:
    """Options of `register-buffers` for one buffer."""

    threshold: int
    """Bytes of the smallest buffer that is registered."""
    groups: frozenset[str]
    """The groups with which memory is registered; none: all."""


@dataclasses.dataclass(frozen=True, slots=True)
class BufferChoice:
    """One tensor that a collective reads or writes.

    `copies` counts copies to and from the library's own buffers if it is not registered: one if it is read,
    one if it is written.
    """

    value: ir.Value[ir.TensorType]
    copies: int
    why: str
    is_registered: bool = False
    root: ir.Value | None = None
    """The value to register: a storage that the program allocates, or the operator's result."""

    @property
    def nbytes(self) -> Expr:
        """Bytes from the first to the last one."""
        return ir.extent_bytes(self.value.type)

    def __str__(self) -> str:
        return f"%{self.value.name} of {self.nbytes} bytes {self.why}"


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveBuffers:
    """The buffers of one collective."""

    function: str
    position: int
    op: ir.CollectiveStart
    buffers: tuple[BufferChoice, ...]

    def __str__(self) -> str:
        name = self.op.target.partition("::")[2]
        buffers = "; ".join(map(str, self.buffers))
        return f"@{self.function} op {self.position} {name} in group {self.op.group!r}: {buffers}"


def registration_totals(collectives: Iterable[CollectiveBuffers]) -> str:
    """Counts buffers, bytes and copies of one call in registered memory, and in total."""
    buffers = [b for c in collectives for b in c.buffers]
    registered = [b for b in buffers if b.is_registered]

    def total(some: list[BufferChoice]) -> tuple[int, int, int]:
        return len(some), sum(as_int(b.nbytes) or 0 for b in some), sum(b.copies for b in some)

    return "{} of {} buffers, {} of {} bytes, {} of {} copies avoided".format(
        *(n for pair in zip(total(registered), total(buffers)) for n in pair)
    )


def collective_buffers(
    function: ir.Function, analyses: Analyses, limits: RegistrationLimits
) -> Iterator[CollectiveBuffers]:
    """Returns the buffers of each collective of the communication library that a function starts, in order.

    The function has no frees.
    """
    chooser = _Function(function, analyses, limits)
    for position, op in function.positions_of(ir.CollectiveStart):
        if op.target.startswith(_LIBRARY):
            yield CollectiveBuffers(function.name, position, op, tuple(chooser.buffers(op)))


class _Function:
    def __init__(self, function: ir.Function, analyses: Analyses, limits: RegistrationLimits) -> None:
        self.function, self.analyses, self.limits = function, analyses, limits
        self.roots = analyses.aliasing(function).roots
        self.crossing = analyses.get_for(function, crossing_streams)
        self.allocations: dict[ir.Value, ir.AllocStorage] = {
            op.result: op for op in function.ops_of(ir.AllocStorage)
        }
        self.groups: dict[ir.Value, str] = {}
        """The group with which a storage is registered: that of the first collective."""

    def buffers(self, op: ir.CollectiveStart) -> Iterator[BufferChoice]:
        info = self.analyses.extern_info[op.target]
        written_names = {a.name for a in info.schema.args if a.written}
        for name, values in named_arguments(op, info):
            copies = 2 if name in written_names and name != "out" else 1
            yield from (self.choice(op, v, copies) for v in values if ir.is_tensor(v))
        if not written_names:
            yield from (self.result(op, v) for v in op.results)

    def choice(self, op: ir.CollectiveStart, value: ir.Value[ir.TensorType], copies: int) -> BufferChoice:
        roots = self.roots.get(value, NO_ROOTS)
        storages = [root.type.space for root in roots if ir.is_storage(root)]
        spaces = {(space.kind, space.group) for space in storages}
        if spaces == {(ir.MemoryKind.REGISTERED, op.group)} and len(storages) == len(roots):
            return BufferChoice(value, copies, "is registered", is_registered=True)
        why = self.refused(op, value) or self.refused_root(value, roots)
        if why:
            return BufferChoice(value, copies, f"is not registered: {why}")
        root = roots[0]
        if self.groups.setdefault(root, op.group) != op.group:
            return BufferChoice(value, copies, f"is registered with group {self.groups[root]!r}")
        return BufferChoice(value, copies, "can be registered", root=root)

    def result(self, op: ir.CollectiveStart, value: ir.Value[ir.TensorType]) -> BufferChoice:
        """A tensor that the operator allocates, if it has a variant that writes into a given tensor."""
        why = self.refused(op, value)
        if not why and op.target not in OUT_VARIANTS:
            why = "the operator allocates it, and has no variant that is given its result"
        why = why or self.escape(value)
        if why:
            return BufferChoice(value, 1, f"is not registered: {why}")
        return BufferChoice(value, 1, "can be registered", root=value)

    def refused(self, op: ir.CollectiveStart, value: ir.Value[ir.TensorType]) -> str:
        """Returns the reason why memory of this size and device is not registered; '' if it is."""
        return why_no_group_memory(
            value, op.group, self.function, self.limits.groups, max(1, self.limits.threshold)
        )

    def refused_root(self, value: ir.Value[ir.TensorType], roots: tuple[ir.Value, ...]) -> str:
        """Returns the reason why the memory of a tensor cannot be registered; '' if it can."""
        allocation = self.allocations.get(roots[0]) if len(roots) == 1 else None
        if allocation is None:
            return origin_of(value, roots, self.function, self.analyses)
        why = why_storage_stays(allocation, self.crossing)
        if not why and as_int(allocation.result.type.nbytes) is None:
            why = f"the size of %{allocation.result.name} is known at run time only"
        return why or self.escape(allocation.result)

    def escape(self, root: ir.Value) -> str:
        """Returns an op that shares the memory beyond the call, since a later call of the program writes
        there again.
        """
        for escape in escapes(self.function, self.analyses, root):
            if escape.kind is not EscapeKind.COLLECTIVE:
                return f"it outlives the call or its function: {escape.why}"
        return ""

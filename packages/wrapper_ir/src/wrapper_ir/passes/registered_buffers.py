"""Which buffers of collectives lie in memory that is registered with their group, which can, and why others cannot."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from wrapper_ir.aliasing import NO_ROOTS
from wrapper_ir.analyses import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.analysis.symmetric import named_arguments
from wrapper_ir.expr import Expr, Int
from wrapper_ir.layout import extent_bytes
from wrapper_ir.ops import (
    AllocPurpose,
    AllocStorage,
    CollectiveStart,
    EnterMemoryPool,
    ResizeStorage,
    SetStorage,
    ZeroMode,
)
from wrapper_ir.passes.escapes import EscapeKind, escapes
from wrapper_ir.program import Function
from wrapper_ir.types import MemoryKind, StorageType, TensorType
from wrapper_ir.values import Value, is_tensor

__all__ = [
    "OUT_VARIANTS",
    "BufferChoice",
    "CollectiveBuffers",
    "RegistrationLimits",
    "collective_buffers",
    "registration_totals",
]

_LIBRARY = "_c10d_functional::"
OUT_VARIANTS = {
    f"{_LIBRARY}all_gather_into_tensor": f"{_LIBRARY}all_gather_into_tensor_out",
    f"{_LIBRARY}reduce_scatter_tensor": f"{_LIBRARY}reduce_scatter_tensor_out",
}
"""Collectives that allocate their result, and the same that write it where they are told."""


@dataclasses.dataclass(frozen=True, slots=True)
class RegistrationLimits:
    """Options of `register-buffers`, as it asks about one buffer."""

    threshold: int
    """Bytes of the smallest buffer that is registered."""
    groups: frozenset[str]
    """The groups with which memory is registered; none: all."""


@dataclasses.dataclass(frozen=True, slots=True)
class BufferChoice:
    """One tensor that a collective reads or writes. `copies`: between it and the library's own buffers, where it is not registered: one
    if it is read, one if it is written."""

    value: Value[TensorType]
    copies: int
    why: str
    is_registered: bool = False
    root: Value | None = None
    """What `register-buffers` registers for it: the storage that the program allocates, or the operator's result."""

    @property
    def nbytes(self) -> Expr:
        """From its first byte to its last."""
        return extent_bytes(self.value.type)

    def __str__(self) -> str:
        return f"%{self.value.name} of {self.nbytes} bytes {self.why}"


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveBuffers:
    """The buffers of one collective."""

    function: str
    position: int
    op: CollectiveStart
    buffers: tuple[BufferChoice, ...]

    def __str__(self) -> str:
        name = self.op.target.partition("::")[2]
        given = "; ".join(map(str, self.buffers))
        return f"@{self.function} op {self.position} {name} in group {self.op.group!r}: {given}"


def registration_totals(found: Iterable[CollectiveBuffers]) -> str:
    """How many buffers, bytes and copies of one call are in registered memory, and of how many."""
    buffers = [b for c in found for b in c.buffers]
    registered = [b for b in buffers if b.is_registered]

    def total(some: list[BufferChoice]) -> tuple[int, int, int]:
        numbers = [b.nbytes for b in some]
        return len(some), sum(n.value for n in numbers if isinstance(n, Int)), sum(b.copies for b in some)

    return "{} of {} buffers, {} of {} bytes, {} of {} copies avoided".format(
        *(n for pair in zip(total(registered), total(buffers)) for n in pair)
    )


def collective_buffers(
    function: Function, analyses: Analyses, limits: RegistrationLimits
) -> Iterator[CollectiveBuffers]:
    """The buffers of each collective of the communication library that a function starts, in order; the function has no frees."""
    found = _Function(function, analyses, limits)
    for position, op in enumerate(function.body):
        if isinstance(op, CollectiveStart) and op.target.startswith(_LIBRARY):
            yield CollectiveBuffers(function.name, position, op, tuple(found.buffers(op)))


class _Function:
    def __init__(self, function: Function, analyses: Analyses, limits: RegistrationLimits) -> None:
        self.function, self.analyses, self.limits = function, analyses, limits
        self.roots = analyses.aliasing(function).roots
        self.crossing = analyses.get_for(function, crossing_streams)
        self.made: dict[Value, AllocStorage] = {
            op.result: op for op in function.body if isinstance(op, AllocStorage)
        }
        self.groups: dict[Value, str] = {}
        """The group with which a storage is registered: that of the first collective."""

    def buffers(self, op: CollectiveStart) -> Iterator[BufferChoice]:
        info = self.analyses.extern_info[op.target]
        written = {a.name for a in info.schema.args if a.written}
        for name, values in named_arguments(op, info):
            copies = 2 if name in written and name != "out" else 1
            yield from (self.choice(op, v, copies) for v in values if is_tensor(v))
        if not written:
            yield from (self.result(op, v) for v in op.results)

    def choice(self, op: CollectiveStart, value: Value[TensorType], copies: int) -> BufferChoice:
        roots = self.roots.get(value, NO_ROOTS)
        types = [root.type for root in roots]
        spaces = {(t.space.kind, t.space.group) for t in types if isinstance(t, StorageType)}
        if spaces == {(MemoryKind.REGISTERED, op.group)} and len(types) == len(roots):
            return BufferChoice(value, copies, "is registered", is_registered=True)
        why = self.refused(op, value) or self.refused_root(value, roots)
        root = None if why else roots[0]
        if root is not None and self.groups.setdefault(root, op.group) != op.group:
            return BufferChoice(value, copies, f"is registered with group {self.groups[root]!r}")
        return BufferChoice(value, copies, why or "can be registered", root=root)

    def result(self, op: CollectiveStart, value: Value[TensorType]) -> BufferChoice:
        """A tensor that the operator allocates; its variant that writes into a given tensor does as well."""
        why = self.refused(op, value)
        if not why and op.target not in OUT_VARIANTS:
            why = "is allocated by the operator, which has no variant that is given its result"
        why = why or self.escape(value)
        return BufferChoice(value, 1, why or "can be registered", root=None if why else value)

    def refused(self, op: CollectiveStart, value: Value[TensorType]) -> str:
        """Why no memory of this size and device is registered; '' where it is."""
        if self.limits.groups and op.group not in self.limits.groups:
            return f"is not registered: option groups leaves group {op.group!r} out"
        if value.type.device.type != "cuda":
            return f"lies on {value.type.device}, which registers no memory"
        nbytes = extent_bytes(value.type)
        if not isinstance(nbytes, Int):
            return "has a size that is known at run time only"
        if nbytes.value < max(1, self.limits.threshold):
            return f"has fewer than {max(1, self.limits.threshold)} bytes"
        if any(isinstance(o, EnterMemoryPool | ResizeStorage | SetStorage) for o in self.function.body):
            return "is in a function that takes memory from pools, or moves it under tensors"
        return ""

    def refused_root(self, value: Value[TensorType], roots: tuple[Value, ...]) -> str:
        """Why the memory of a tensor cannot be registered; '' where it can."""
        made = self.made.get(roots[0]) if len(roots) == 1 else None
        if made is None:
            return self.origin(roots)
        type = made.result.type
        if made.purpose is not AllocPurpose.PLAIN or made.zero is not ZeroMode.NONE:
            return "lies in a pool, or in memory that begins with zeros: register-buffers comes before plan-memory"
        if type.space.kind is not MemoryKind.DEFAULT:
            return f"lies in {type.space.kind.value} memory"
        if made.stream or made.result in self.crossing:
            return "is of another stream"
        if not isinstance(type.nbytes, Int):
            return "lies in a storage of a size that is known at run time only"
        return self.escape(made.result)

    def origin(self, roots: tuple[Value, ...]) -> str:
        """Where a tensor comes from that the function does not allocate."""
        params = {p.value for p in self.function.params}
        if any(root in params for root in roots):
            return "is an input, which the caller allocates"
        if any(root in self.analyses.constant_values for root in roots):
            return "is a constant"
        return "is the result of an operator, which allocates it"

    def escape(self, root: Value) -> str:
        """What hands the memory on: a later call of the program writes there again."""
        for found in escapes(self.function, self.analyses, root):
            if found.kind is not EscapeKind.COLLECTIVE:
                return f"outlives the call or its function: {found.why}"
        return ""

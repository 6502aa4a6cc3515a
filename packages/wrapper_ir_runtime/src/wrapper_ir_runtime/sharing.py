"""Checks the caller's tensors before a call: gradients and shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from wrapper_ir import ir
from wrapper_ir.analysis.overlap import overlap
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime.inputs import Caller, expect_tensors

Named = Sequence[tuple[str, object]]
"""Leaves with their names for messages."""


def gradient_leaves(signature: ir.Signature) -> tuple[int, ...]:
    """Returns the leaves that the program computes with. A gradient that one requires would be lost."""
    bound = {*signature.params, *(u.leaf for u in signature.unwraps)}
    bound |= {leaf for s in signature.same for leaf in s.leaves}
    bound |= {p.leaf for s in signature.shared for p in s.places}
    return tuple(sorted(bound))


def apart_leaves(signature: ir.Signature) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yields each leaf that the program writes, with the leaves that it must not overlap."""
    wrappers = {u.leaf for u in signature.unwraps}  # wrappers have no storage
    bound = [leaf for leaf in dict.fromkeys(signature.params) if leaf not in wrappers]
    groups = [set(s.leaves) for s in signature.same]
    groups += [{p.leaf for p in s.places} for s in signature.shared]
    for leaf in signature.written:
        friends = {leaf}.union(*(g for g in groups if leaf in g))
        others = tuple(i for i in bound if i not in friends)
        if others and leaf not in wrappers:
            yield leaf, others


def expect_no_gradient(caller: Caller, leaves: Named) -> None:
    """Raises ExecutionError WIR930 if autograd would record the call."""
    if caller.needs_gradient([leaf for _, leaf in leaves]):
        refuse_gradient(leaves)


def refuse_gradient(leaves: Named) -> NoReturn:
    """Raises ExecutionError WIR930: gradients for some of these inputs would be lost silently."""
    names = [name for name, leaf in leaves if getattr(leaf, "requires_grad", False)]  # as torch calls it
    raise ExecutionError(
        "WIR930",
        f"input {', '.join(names)} requires a gradient, and this program records none",
        hint="call it under torch.no_grad(), pass x.detach(), "
        "or train with torch.compile(backend='wrapper_ir')",
    )


def expect_same(caller: Caller, tensors: Named) -> None:
    """Raises ExecutionError WIR931 unless all tensors have the same address and layout."""
    expect_tensors(caller, tensors)
    (first, tensor), *others = tensors
    want = caller.geometry(tensor)
    for name, other in others:
        got = caller.geometry(other)
        alike = (got.storage, got.offset, got.itemsize) == (want.storage, want.offset, want.itemsize)
        if not alike or not got.has_layout(want.sizes, want.strides):
            raise _sharing(f"{first} and {name} were the same tensor, and are not now")


def expect_apart(caller: Caller, target: tuple[str, object], others: Named) -> None:
    """Raises ExecutionError WIR931 if a tensor that the program writes overlaps another one."""
    name, tensor = target
    expect_tensors(caller, [target])
    storage = caller.storage(tensor)
    for other, candidate in others:
        if not caller.is_tensor(candidate) or caller.storage(candidate) != storage:
            continue
        if overlap(caller.geometry(tensor), caller.geometry(candidate)):
            raise _sharing(f"{name}, which the program writes, was apart from {other}, and overlaps it now")


def shared_window(caller: Caller, shared: ir.SharedStorage, tensors: Named) -> object:
    """Returns the memory under overlapping tensors (one per place) as one tensor.

    Raises ExecutionError WIR931 if their positions differ from those at capture.
    """
    expect_tensors(caller, tensors)
    base = caller.geometry(tensors[0][1])
    start = base.offset - shared.places[0].offset
    for place, (_, tensor) in zip(shared.places, tensors, strict=True):
        got = caller.geometry(tensor)
        in_place = (got.storage, got.itemsize, got.offset) == (
            base.storage,
            base.itemsize,
            start + place.offset,
        )
        if not in_place or not got.has_layout(place.sizes, place.strides):
            names = ", ".join(name for name, _ in tensors)
            raise _sharing(f"{names} overlapped in memory, and do not overlap so now")
    return caller.window(tensors[0][1], start, shared.count)


def _sharing(what: str) -> ExecutionError:
    return ExecutionError(
        "WIR931",
        f"at capture, input {what}",
        hint="call it with tensors that share memory as they did at capture, or capture this case separately",
    )

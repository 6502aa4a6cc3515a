"""Which arguments of a kernel may share memory: what holds of the kernel, and what this launch shares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wrapper_ir import ir


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A parameter and what a call gives it: of tensors, the buffer by Inductor's name ('' for others), its value, and its storage."""

    name: str
    dtype: ir.DType
    access: ir.Access
    buffer: str
    value: object
    storage: ir.Value | None


@dataclass(frozen=True, slots=True)
class Use:
    """What a kernel does through one parameter, and the parameters that it may share bytes with: see `KernelParam`."""

    access: ir.Access
    may_alias: tuple[str, ...]
    may_overlap: tuple[str, ...]


def uses_of(
    passed: Sequence[Passed], inplace: Collection[tuple[str, str]], *, own: bool = False
) -> tuple[Use, ...]:
    """How each parameter is used. `inplace` are pairs of buffers that may be the same bytes, whether they are or not. Of
    a model's `own` kernel nothing is known but what it is given."""
    return tuple(
        Use(
            access=p.access,
            may_alias=tuple(q.name for q in passed if q is not p and not own and _may_alias(p, q, inplace)),
            may_overlap=tuple(q.name for q in passed if q is not p and _may_overlap(p, q, own)),
        )
        for p in passed
    )


def _may_alias(p: Passed, q: Passed, inplace: Collection[tuple[str, str]]) -> bool:
    """A mutated buffer is passed twice, to be read and to be written: each element is loaded before it is stored. Buffers
    of two types are left apart, as a C++ compiler takes them to be."""
    if _one_written(p, q):
        return p.value == q.value
    read, written = (p, q) if p.access is ir.Access.READ else (q, p)
    if read.access is not ir.Access.READ or written.access is not ir.Access.WRITE or p.dtype is not q.dtype:
        return False
    return (read.buffer, written.buffer) in inplace


def _may_overlap(p: Passed, q: Passed, own: bool) -> bool:
    """Parts of one storage: Inductor reads a concatenation whose parts the same kernel has just written."""
    return _one_written(p, q) and (own or p.value != q.value)


def _one_written(p: Passed, q: Passed) -> bool:
    """Whether both are given bytes of one storage, and one of them writes."""
    return p.storage is not None and p.storage == q.storage and (p.access.writes or q.access.writes)

"""Determines which arguments of a kernel may share memory, from its in-place pairs and from one launch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wrapper_ir import ir


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A parameter with the argument of a call.

    `buffer`: Inductor's name of a tensor argument, '' for others. `storage`: the storage of a tensor
    argument.
    """

    name: str
    dtype: ir.DType
    access: ir.Access
    buffer: str
    value: object
    storage: ir.Value | None


@dataclass(frozen=True, slots=True)
class Use:
    """The access through one parameter, and the parameters that it may share bytes with; see
    `KernelParam`."""

    access: ir.Access
    may_alias: tuple[str, ...]
    may_overlap: tuple[str, ...]


def uses_of(
    operands: Sequence[Passed], inplace: Collection[tuple[str, str]], *, own: bool = False
) -> tuple[Use, ...]:
    """Returns the use of each parameter.

    `inplace`: pairs of buffers that may share all bytes, even if they do not in this launch. `own`: whether
    the kernel is the model's, about which only the arguments are known.
    """
    return tuple(
        Use(
            access=p.access,
            may_alias=tuple(q.name for q in operands if q is not p and not own and _may_alias(p, q, inplace)),
            may_overlap=tuple(q.name for q in operands if q is not p and _may_overlap(p, q, own)),
        )
        for p in operands
    )


def _may_alias(p: Passed, q: Passed, inplace: Collection[tuple[str, str]]) -> bool:
    """Returns whether two parameters may have the same bytes.

    A mutated buffer is passed twice, to read and to write: each element is loaded before it is stored.
    Parameters of different dtypes may not alias, since a C++ compiler assumes that they do not.
    """
    if _one_written(p, q):
        return p.value == q.value
    source, target = (p, q) if p.access is ir.Access.READ else (q, p)
    if source.access is not ir.Access.READ or target.access is not ir.Access.WRITE or p.dtype is not q.dtype:
        return False
    return (source.buffer, target.buffer) in inplace


def _may_overlap(p: Passed, q: Passed, own: bool) -> bool:
    """Returns whether two parameters may be overlapping parts of one storage.

    Inductor reads a concatenation whose parts the same kernel has written.
    """
    return _one_written(p, q) and (own or p.value != q.value)


def _one_written(p: Passed, q: Passed) -> bool:
    """Returns whether both arguments have the same storage, and at least one is written."""
    return p.storage is not None and p.storage == q.storage and (p.access.writes or q.access.writes)

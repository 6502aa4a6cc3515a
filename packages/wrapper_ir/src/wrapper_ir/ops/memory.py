"""Ops that make, end and fill storage."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wrapper_ir.expr import Expr
from wrapper_ir.ops.base import Def, OpBase, Use

__all__ = [
    "AllocPurpose",
    "AllocStorage",
    "Copy",
    "Drop",
    "EnsureAligned",
    "Free",
    "ResizeStorage",
    "SetStorage",
    "ZeroMode",
]


class AllocPurpose(enum.Enum):
    """Why storage is allocated; planners treat the three differently."""

    PLAIN = "plain"
    WORKSPACE = "workspace"
    POOL = "pool"


class ZeroMode(enum.Enum):
    """What the bytes hold at first: anything, zeros at each call, or zeros once (the kernels restore them)."""

    NONE = "none"
    CALL = "call"
    ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocStorage(OpBase):
    """Makes a new storage; its type gives bytes, device and memory space.

    Text: `%s = alloc_storage 256`, `%s = alloc_storage s0 * 4 @cuda:0 workspace zero(call) stream(1)`.
    Together with a `View` of all of it: `%buf0 = alloc f32[s0, 64]` (the storage is then named `%buf0.s`).
    """

    result: Def
    purpose: AllocPurpose = AllocPurpose.PLAIN
    zero: ZeroMode = ZeroMode.NONE
    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Free(OpBase):
    """Ends a storage: no later op touches any tensor of it.

    `storage` is a storage value, or a root tensor (an owned parameter or a fresh result), whose storage is meant.
    Text: `free %buf0.s`.
    """

    storage: Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(OpBase):
    """Ends a name without claiming that its storage ends: results that may alias, nested results, handles, and
    borrowed parameters after their last use (so that a boxed call lets go of them).

    Text: `drop %buf3`.
    """

    value: Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(OpBase):
    """Copies elements of `src` into `dst` with broadcasting and dtype conversion, also between devices.

    Text: `copy %dst, %src`, `copy %dst, %src non_blocking stream(1)`.
    """

    dst: Use
    src: Use
    non_blocking: bool = False
    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureAligned(OpBase):
    """`result` is `source` itself when its address is a multiple of `alignment` bytes, else an aligned copy.

    Text: `%x.a = ensure_aligned %x, 16`.
    """

    source: Use
    result: Def
    alignment: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeStorage(OpBase):
    """Changes the size of the storage under `target` to `nbytes`; such a storage is never reused or planned.

    Text: `resize_storage %x, s0 * 4`.
    """

    target: Use
    nbytes: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStorage(OpBase):
    """Makes `target` (in place, for every holder) a view of `source`'s storage with `source`'s layout.

    Text: `set_storage %x, %y`. Neither storage is reused or planned.
    """

    target: Use
    source: Use

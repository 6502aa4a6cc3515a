"""Ops that make, end and fill storage."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr, Int
from wrapper_ir.ir.ops.base import Def, OpBase, Stream, Use
from wrapper_ir.ir.ops.effects import (
    EffectClass,
    EffectContext,
    Effects,
    EffectSpec,
    ends,
    has,
    may_alias,
    reads,
    writes,
)
from wrapper_ir.ir.types import StorageType, TensorType, Type

_ZERO = Int(0)


class AllocPurpose(enum.Enum):
    """Why storage is allocated; planners treat the three differently. A `pool` holds slots, never tensors."""

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
    """Makes a new storage; its type gives bytes, device, memory space and alignment, of which there is no more than the
    device's allocators give (64 bytes, on CUDA devices 256).

    Text: `%s = alloc_storage 256`, `%s = alloc_storage s0*4 @cuda:0 align(256) workspace zero(call) stream(1)`,
    `%buf0 = alloc f32[s0, 64]`.

    The last form is an allocation and a `View` of all of it; the storage's name is the view's with `.s` appended.
    """

    syntax: ClassVar[str] = (
        "{result} = alloc_storage {result:storage}< {purpose}>< zero({zero})>< stream({stream})>"
    )

    result: Def[StorageType]
    purpose: AllocPurpose = AllocPurpose.PLAIN
    zero: ZeroMode = ZeroMode.NONE
    stream: Stream = 0

    def effects(self, context: EffectContext) -> Effects:
        """Zeroing writes all of the storage."""
        made = (self.result,)
        return Effects((), made if self.zero is not ZeroMode.NONE else (), made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot(OpBase):
    """Makes a storage of bytes of another one: of a pool, of a storage parameter, or of a slot.

    The slot begins here and ends with its own `free`, which its pool outlives. Its bytes hold nothing at first, or with
    `zero(call)` zeros, which are written on `stream`; no other slot of the pool shares them until it ends. `offset` is in bytes, from the start of `pool`; the result's type
    gives bytes, device, memory space and alignment: the pool's device and space, and no more alignment than those of the
    pool and of `offset` have in common, which is what goes unsaid. Neither a slot nor a tensor of it leaves the
    function, except as an argument that the callee gives back.
    Text: `%a = slot %pool + 256 : 1024`, `%a = slot %pool + s0 : 1024 align(16) zero(call) stream(1)`.
    """

    syntax: ClassVar[str] = (
        "{result} = slot {pool}< + {offset}> : {result:storage=pool}< zero({zero})>< stream({stream})>"
    )

    pool: Use[StorageType]
    result: Def[StorageType]
    offset: Expr = _ZERO
    zero: ZeroMode = ZeroMode.NONE
    stream: Stream = 0

    def effects(self, context: EffectContext) -> Effects:
        """Zeroing writes all of the slot."""
        made = (self.result,)
        writes = made if self.zero is not ZeroMode.NONE else ()
        return Effects(writes=writes, fresh=made, within=((self.result, self.pool),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Free(OpBase):
    """Ends a storage: no later op touches any tensor of it. A slot gives its bytes back to its pool.

    `storage` is a storage value, or a root tensor (an owned parameter or a fresh result), whose storage is meant.
    Text: `free %buf0.s`.
    """

    syntax: ClassVar[str] = "free {storage}"
    effect_spec: ClassVar[EffectSpec] = ends("storage")

    storage: Use[StorageType | TensorType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(OpBase):
    """Ends a name without claiming that its storage ends: results that may alias, nested results, handles, and
    borrowed parameters after their last use (so that a boxed call lets go of them).

    Text: `drop %buf3`.
    """

    syntax: ClassVar[str] = "drop {value}"
    effect_spec: ClassVar[EffectSpec] = ends("value")

    value: Use[Type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(OpBase):
    """Copies elements of `src` into `dst` with broadcasting and dtype conversion, also between devices.

    Text: `copy %dst, %src`, `copy %dst, %src non_blocking stream(1)`.
    """

    syntax: ClassVar[str] = "copy {dst}, {src}< {non_blocking}>< stream({stream})>"
    effect_spec: ClassVar[EffectSpec] = reads("src") | writes("dst")

    dst: Use[TensorType]
    src: Use[TensorType]
    non_blocking: bool = False
    stream: Stream = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureAligned(OpBase):
    """`result` is `source` itself when its address is a multiple of `alignment` bytes, else an aligned copy.

    Text: `%x.a = ensure_aligned %x, 16`.
    """

    syntax: ClassVar[str] = "{result} = ensure_aligned {source}, {alignment}< : {result:type=source}>"
    effect_spec: ClassVar[EffectSpec] = reads("source") | may_alias("result", "source")

    source: Use[TensorType]
    result: Def[TensorType]
    alignment: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeStorage(OpBase):
    """Changes the size of the storage under `target` to `nbytes`; such a storage is never reused or planned.

    Text: `resize_storage %x, s0*4`.
    """

    syntax: ClassVar[str] = "resize_storage {target}, {nbytes}"
    effect_spec: ClassVar[EffectSpec] = writes("target") | has(EffectClass.STORAGE_CHANGE)

    target: Use[TensorType]
    nbytes: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStorage(OpBase):
    """Makes `target` (in place, for every holder) a view of `source`'s storage with `source`'s layout.

    Text: `set_storage %x, %y`. Neither storage is reused or planned.
    """

    syntax: ClassVar[str] = "set_storage {target}, {source}"
    effect_spec: ClassVar[EffectSpec] = (
        reads("source") | writes("target") | may_alias("target", "source") | has(EffectClass.STORAGE_CHANGE)
    )

    target: Use[TensorType]
    source: Use[TensorType]


MemoryOp = AllocStorage | Slot | Free | Drop | Copy | EnsureAligned | ResizeStorage | SetStorage

"""Ops that allocate, free, copy and change storages."""

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
    """Purpose of an allocation, for planners. A `pool` contains slots, never tensors."""

    PLAIN = "plain"
    WORKSPACE = "workspace"
    POOL = "pool"


class ZeroMode(enum.Enum):
    """Initial bytes: undefined, zeros at each call, or zeros once (kernels restore them)."""

    NONE = "none"
    CALL = "call"
    ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocStorage(OpBase):
    """Allocates a storage. Its type has the size in bytes, device, memory space and alignment.

    The alignment is at most that of the device's allocators: 64 bytes, on CUDA devices 256.

    Text: `%s = alloc_storage 256`,
    `%s = alloc_storage s0*4 @cuda:0 align(256) workspace zero(call) stream(1)`, `%buf0 = alloc f32[s0, 64]`.

    The last form is an allocation and a `View` of the whole storage, whose name is the view's followed by
    `.s`.
    """

    syntax: ClassVar[str] = (
        "{result} = alloc_storage {result:storage}< {purpose}>< zero({zero})>< stream({stream})>"
    )

    result: Def[StorageType]
    purpose: AllocPurpose = AllocPurpose.PLAIN
    zero: ZeroMode = ZeroMode.NONE
    stream: Stream = 0

    def effects(self, context: EffectContext) -> Effects:
        """Writes the whole storage if it is zeroed."""
        results = (self.result,)
        return Effects((), results if self.zero is not ZeroMode.NONE else (), results)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot(OpBase):
    """Allocates a storage inside another one: a pool, a storage parameter, or a slot.

    The slot's lifetime ends with its `free`, before that of its pool. No other slot of the pool shares its
    bytes meanwhile. The bytes are undefined at first; with `zero(call)`, they are zeroed on `stream`.
    `offset` is in bytes from the start of `pool`. The result's type has the pool's device and space. Its
    alignment is at most the one that follows from the pool's and from `offset`, which is the default in text.
    Neither a slot nor a tensor in it leaves the function, except as an argument that the callee returns to
    it.

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
        """Writes the whole slot if it is zeroed."""
        results = (self.result,)
        writes = results if self.zero is not ZeroMode.NONE else ()
        return Effects(writes=writes, fresh=results, within=((self.result, self.pool),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Free(OpBase):
    """Frees a storage: no later op uses any tensor in it. The bytes of a slot return to its pool.

    `storage` is a storage value, or a root tensor (an owned parameter or a fresh result) that stands for its
    storage.

    Text: `free %buf0.s`.
    """

    syntax: ClassVar[str] = "free {storage}"
    effect_spec: ClassVar[EffectSpec] = ends("storage")

    storage: Use[StorageType | TensorType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(OpBase):
    """Ends the lifetime of a name, but not necessarily of its storage.

    It applies to results that may alias, nested results, handles, and borrowed parameters after their last
    use, so that a boxed call releases them.

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
    """Returns `source` itself if its address is a multiple of `alignment` bytes, otherwise an aligned copy.

    Text: `%x.a = ensure_aligned %x, 16`.
    """

    syntax: ClassVar[str] = "{result} = ensure_aligned {source}, {alignment}< : {result:type=source}>"
    effect_spec: ClassVar[EffectSpec] = reads("source") | may_alias("result", "source")

    source: Use[TensorType]
    result: Def[TensorType]
    alignment: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeStorage(OpBase):
    """Resizes the storage under `target` to `nbytes`. Such a storage is never reused or planned.

    Text: `resize_storage %x, s0*4`.
    """

    syntax: ClassVar[str] = "resize_storage {target}, {nbytes}"
    effect_spec: ClassVar[EffectSpec] = writes("target") | has(EffectClass.STORAGE_CHANGE)

    target: Use[TensorType]
    nbytes: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStorage(OpBase):
    """Changes `target` in place, for all references, to a view of `source`'s storage with its layout.

    Neither storage is reused or planned.

    Text: `set_storage %x, %y`.
    """

    syntax: ClassVar[str] = "set_storage {target}, {source}"
    effect_spec: ClassVar[EffectSpec] = (
        reads("source") | writes("target") | may_alias("target", "source") | has(EffectClass.STORAGE_CHANGE)
    )

    target: Use[TensorType]
    source: Use[TensorType]


MemoryOp = AllocStorage | Slot | Free | Drop | Copy | EnsureAligned | ResizeStorage | SetStorage

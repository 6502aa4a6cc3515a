"""Events, which order streams, and barriers, which order ops. Stream 0 is the device's current stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.ir.ops.base import Def, OpBase, Stream, Use
from wrapper_ir.ir.ops.effects import EffectClass, EffectSpec, fresh, has
from wrapper_ir.ir.types import Device, OpaqueKind, OpaqueType


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent(OpBase):
    """Records an event that completes when all work queued on `stream` of `device` so far has completed.

    `result` has the opaque type `event`. Text: `%e = record_event @cuda:0 stream(1)`.
    """

    syntax: ClassVar[str] = "{result} = record_event{device}< stream({stream})>< : {result:type=event}>"
    effect_spec: ClassVar[EffectSpec] = fresh("result") | has(EffectClass.ORDER)
    event: ClassVar[OpaqueType] = OpaqueType(OpaqueKind.EVENT)

    result: Def[OpaqueType]
    device: Device
    stream: Stream = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEvent(OpBase):
    """Lets `stream` of `device` wait for `event` without blocking the host.

    Text: `wait_event %e @cuda:0 stream(2)`.
    """

    syntax: ClassVar[str] = "wait_event {event}{device}< stream({stream})>"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)

    event: Use[OpaqueType]
    device: Device
    stream: Stream = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEvent(OpBase):
    """Blocks the host until `event` has completed. Text: `sync_event %e`."""

    syntax: ClassVar[str] = "sync_event {event}"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)

    event: Use[OpaqueType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(OpBase):
    """Prevents reordering: no op with an effect (a write or an effect class) is moved across it.

    It orders the ops that the host issues and waits for nothing; events order streams. Text: `barrier`.
    """

    syntax: ClassVar[str] = "barrier"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)


PlacementOp = RecordEvent | WaitEvent | SyncEvent | Barrier

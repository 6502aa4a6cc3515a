"""Order: of streams by events, of ops by barriers. Stream 0 is the device's current stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.ir.ops.base import Def, OpBase, Stream, Use
from wrapper_ir.ir.ops.effects import EffectClass, EffectSpec, fresh, has
from wrapper_ir.ir.types import Device, OpaqueKind, OpaqueType


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent(OpBase):
    """Makes an event that happens when `stream` of `device` has done all that was queued before.

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
    """Makes `stream` of `device` wait for `event`; the host goes on. Text: `wait_event %e @cuda:0 stream(2)`."""

    syntax: ClassVar[str] = "wait_event {event}{device}< stream({stream})>"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)

    event: Use[OpaqueType]
    device: Device
    stream: Stream = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEvent(OpBase):
    """Blocks the host until `event` has happened. Text: `sync_event %e`."""

    syntax: ClassVar[str] = "sync_event {event}"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)

    event: Use[OpaqueType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(OpBase):
    """Keeps the order of ops: none that has an effect (it writes memory, or has an effect class) may be moved from one
    side to the other, by whoever changes or emits the program.

    It orders what the host issues, and waits for nothing; streams are ordered by events. Text: `barrier`.
    """

    syntax: ClassVar[str] = "barrier"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)


PlacementOp = RecordEvent | WaitEvent | SyncEvent | Barrier

"""Stream order by events. Stream 0 is the device's current stream."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.ops.base import Def, OpBase, Use
from wrapper_ir.types import Device

__all__ = ["RecordEvent", "SyncEvent", "WaitEvent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent(OpBase):
    """Makes an event that happens when `stream` of `device` has done all that was queued before.

    `result` has the opaque type `event`. Text: `%e = record_event @cuda:0 stream(1)`.
    """

    result: Def
    device: Device
    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEvent(OpBase):
    """Makes `stream` of `device` wait for `event`; the host goes on. Text: `wait_event %e @cuda:0 stream(2)`."""

    event: Use
    device: Device
    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEvent(OpBase):
    """Blocks the host until `event` has happened. Text: `sync_event %e`."""

    event: Use

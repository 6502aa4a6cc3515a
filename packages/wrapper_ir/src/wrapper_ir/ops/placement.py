"""Stream order. Events are named within a function; stream 0 is the current stream."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.ops.base import OpBase
from wrapper_ir.types import CPU, Device

__all__ = ["RecordEvent", "SyncEvent", "WaitEvent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent(OpBase):
    """Records event `event` on `stream` of `device`. Text: `record_event "e0" stream(1) @cuda:0`."""

    event: str
    stream: int
    device: Device = CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEvent(OpBase):
    """Makes `stream` wait for `event`. Text: `wait_event "e0" stream(0) @cuda:0`."""

    event: str
    stream: int
    device: Device = CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEvent(OpBase):
    """Blocks the host until `event` has happened. Text: `sync_event "e0" @cuda:0`."""

    event: str
    device: Device = CPU

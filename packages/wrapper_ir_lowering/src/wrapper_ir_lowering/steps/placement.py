"""Steps that determine where work runs: devices, streams, events, scopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir_lowering.steps.base import StepBase, Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterDevice(StepBase):
    """Makes a device the current one of its type until the function ends. Text: `enter_device @cuda:0`."""

    syntax: ClassVar[str] = "enter_device {device}"

    device: ir.Device


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent(StepBase):
    """Creates an event that completes when the stream has finished its queued work.

    On the host (`on_host`), where nothing is queued, it is complete already. Text: `%e = record_event
    stream(1) @cuda:0`.
    """

    syntax: ClassVar[str] = "{result} = record_event {stream}"

    result: ir.Value[ir.OpaqueType]
    stream: Stream
    on_host: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEvent(StepBase):
    """Makes a stream wait for an event; the host continues. Text: `wait_event %e stream(0) @cuda:0`."""

    syntax: ClassVar[str] = "wait_event {event} {stream}"

    event: ir.Value[ir.OpaqueType]
    stream: Stream
    on_host: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncEvent(StepBase):
    """Makes the host wait for an event. Text: `sync_event %e`."""

    syntax: ClassVar[str] = "sync_event {event}"

    event: ir.Value[ir.OpaqueType]
    on_host: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(StepBase):
    """Keeps the order of the steps with effects around it. Text: `barrier`."""

    syntax: ClassVar[str] = "barrier"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterProfile(StepBase):
    """Begins a scope that profilers show; both texts are valid UTF-8. Text: `enter_profile "attention" "layer
    3"`.
    """

    syntax: ClassVar[str] = "enter_profile {name}< {details}>"

    name: str
    details: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterPool(StepBase):
    """Begins a scope in which new memory of `device` comes from the process's pool of this name.
    Text: `enter_pool "activations" @cuda:0`."""

    syntax: ClassVar[str] = "enter_pool {name} {device}"

    name: str
    device: ir.Device


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitScope(StepBase):
    """Ends the innermost scope. Text: `exit_scope`."""

    syntax: ClassVar[str] = "exit_scope"


PlacementStep = (
    EnterDevice | RecordEvent | WaitEvent | SyncEvent | Barrier | EnterProfile | EnterPool | ExitScope
)

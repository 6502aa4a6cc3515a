"""Bytes that one stream writes are used on another only after an event says so.

Each timeline (a stream of a device) counts its ops; what a timeline knows of the others comes through events. The
host runs CPU ops in program order and sees a device's work only after a synchronisation; everything that the host
has seen, it has seen before it queues the next op anywhere.
"""

from __future__ import annotations

from wrapper_ir.aliasing import NO_ROOTS
from wrapper_ir.ops import CallExtern, CollectiveStart, Copy, Launch, Op, RecordEvent, SyncEvent, WaitEvent
from wrapper_ir.types import Device, StorageType, TensorType
from wrapper_ir.values import Value
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers

__all__ = ["Streams"]

Timeline = tuple[str, int]
Clock = dict[Timeline, int]
HOST: Timeline = ("cpu", 0)


def _timeline(device: Device, stream: int) -> Timeline:
    return HOST if device.type == "cpu" else (str(device), stream)


class Streams(Check):
    """WIR045."""

    name = "streams"

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.roots = facts.aliasing.roots
        self.effects = facts.aliasing.effects
        self.clocks: dict[Timeline, Clock] = {HOST: {}}
        self.events: dict[str, Clock] = {}
        self.written: dict[Value, tuple[Timeline, int]] = {}
        self.read: dict[Value, Clock] = {}
        self.needed = facts.asynchronous or not facts.classes.isdisjoint((RecordEvent, WaitEvent, SyncEvent))

    def every(self) -> Handler | None:
        return self.op if self.needed else None

    def handlers(self) -> Handlers:
        if not self.needed:
            return {}
        return {RecordEvent: self.record, WaitEvent: self.wait, SyncEvent: self.sync}

    def clock(self, timeline: Timeline) -> Clock:
        """What a timeline knows: all that the host has seen, and what it has waited for itself."""
        known = self.clocks.setdefault(timeline, {})
        _merge(known, self.clocks[HOST])
        return known

    def record(self, position: int, op: RecordEvent) -> None:
        timeline = _timeline(op.device, op.stream)
        self.events[op.result.name] = {**self.clock(timeline), timeline: position}

    def wait(self, position: int, op: WaitEvent) -> None:
        _merge(self.clock(_timeline(op.device, op.stream)), self.events.get(op.event.name, {}))

    def sync(self, position: int, op: SyncEvent) -> None:
        _merge(self.clocks[HOST], self.events.get(op.event.name, {}))

    def op(self, position: int, op: Op) -> None:
        effects = self.effects[position]
        if not effects.reads and not effects.writes:
            return
        timeline = self.timeline(position, op)
        known = self.clock(timeline)
        for value in effects.reads:
            for root in self.roots.get(value, NO_ROOTS):
                self.ordered(position, value, self.written.get(root), timeline, known)
                self.read.setdefault(root, {})[timeline] = position
        for value in effects.writes:
            for root in self.roots.get(value, NO_ROOTS):
                self.ordered(position, value, self.written.get(root), timeline, known)
                for reader in self.read.pop(root, {}).items():
                    self.ordered(position, value, reader, timeline, known)
                self.written[root] = (timeline, position)
        if isinstance(op, Copy) and not op.non_blocking and timeline != HOST and self.to_host(op):
            self.clocks[HOST][timeline] = position

    def to_host(self, op: Copy) -> bool:
        return isinstance(op.dst.type, TensorType) and op.dst.type.device.type == "cpu"

    def ordered(
        self, position: int, value: Value, last: tuple[Timeline, int] | None, timeline: Timeline, known: Clock
    ) -> None:
        if last is None or last[0] in (timeline, HOST) or known.get(last[0], -1) >= last[1]:
            return
        where = f"stream {last[0][1]} of {last[0][0]}"
        self.report("WIR045", f"%{value.name} is still used on {where} since op {last[1]}", position)

    def timeline(self, position: int, op: Op) -> Timeline:
        """Where the op's work happens: on its stream of the first device that is not the host."""
        stream = op.stream if isinstance(op, Launch | CallExtern | Copy | CollectiveStart) else 0
        for value in self.facts.scanned[position][0]:
            type = value.type
            if isinstance(type, TensorType | StorageType) and type.device.type != "cpu":
                return _timeline(type.device, stream)
        return HOST


def _merge(into: Clock, more: Clock) -> None:
    for timeline, position in more.items():
        if into.get(timeline, -1) < position:
            into[timeline] = position

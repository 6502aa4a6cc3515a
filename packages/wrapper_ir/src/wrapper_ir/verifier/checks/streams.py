"""Checks that events order the accesses of several streams to the same bytes.

Each timeline (a stream of a device) has a clock: the last op of each other timeline that is known to have
completed, through events. The host runs CPU ops in program order, and a device's work completes for it only
by a synchronization; all that has completed for the host precedes the next op that it queues anywhere. Memory
belongs to the stream that allocates it: other streams use it after the allocation, and before that stream
reuses it. Parts of one storage that certainly do not overlap, such as the inputs of a concatenation, are
independent. A call uses its arguments and results on the current stream, and on each stream whose work in the
callee is not ordered with the current stream. The callee may free arguments that are moved to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.overlap import Geometry, overlap
from wrapper_ir.analysis.places import RootOffset, slot_places, tensor_places
from wrapper_ir.analysis.streams import NO_STREAM_ENDS, StreamEnds, Timeline, stream_ends, stream_of
from wrapper_ir.expr import Int
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers
from wrapper_ir.verifier.obligations import as_numbers, as_size

Clock = dict[Timeline, int]
Values = tuple[ir.Value, ...]
Uses = dict[tuple[ir.Value, Timeline], int]
"""The last op of each timeline that used a storage, by the tensor that it used."""
HOST: Timeline = ("cpu", 0)


_ANY_SIZE = 2**48
"""More elements than any dimension has, for a size that is known only at run time."""


def _timeline(device: ir.Device, stream: int) -> Timeline:
    return HOST if device.type == "cpu" else (str(device), stream)


class Streams(Check):
    """WIR045."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.hosts = facts.aliasing.hosts
        self.roots = (
            {v: self.outermost(roots) for v, roots in facts.aliasing.roots.items()}
            if self.hosts
            else facts.aliasing.roots
        )
        self.effects = facts.aliasing.effects
        self.clocks: dict[Timeline, Clock] = {HOST: {}}
        self.events: dict[str, Clock] = {}
        self.written: dict[ir.Value, Uses] = {}
        self.read: dict[ir.Value, Uses] = {}
        self.homes: dict[ir.Value, Timeline] = {}
        """The timeline that owns each memory; that of parameters belongs to the current stream."""
        self.ends = facts.analyses.get(stream_ends)
        self.needed = (
            bool(self.ends)
            or facts.asynchronous
            or not facts.classes.isdisjoint((ir.RecordEvent, ir.WaitEvent, ir.SyncEvent))
        )

    def outermost(self, roots: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
        """Replaces slots by their pools: a freed slot may be reused by another slot on any stream."""
        return tuple(dict.fromkeys(self.facts.aliasing.chain(root)[-1] for root in roots))

    @cached_property
    def places(self) -> Mapping[ir.Value, RootOffset]:
        """The places of tensors in their outermost storages; computed only if two timelines use a storage."""
        get_for, function = self.facts.analyses.get_for, self.facts.function
        places, slots = get_for(function, tensor_places), get_for(function, slot_places)
        if not slots:
            return places
        outer = {
            value: (*slots.get(root, (root, Int(0))), offset) for value, (root, offset) in places.items()
        }
        return {value: (pool, start + offset) for value, (pool, start, offset) in outer.items()}

    def every(self) -> Handler | None:
        return self.op if self.needed else None

    def handlers(self) -> Handlers:
        if not self.needed:
            return {}
        return {
            ir.AllocStorage: self.alloc,
            ir.Free: self.free,
            ir.RecordEvent: self.record,
            ir.WaitEvent: self.wait,
            ir.SyncEvent: self.sync,
        }

    def clock(self, timeline: Timeline) -> Clock:
        """The clock of a timeline: ops that have completed for the host, and those that it waited for
        itself."""
        clock = self.clocks.setdefault(timeline, {})
        _merge(clock, self.clocks[HOST])
        return clock

    def alloc(self, position: int, op: ir.AllocStorage) -> None:
        """Counts an allocation as a write on its stream, where the previous owner may still use the
        memory."""
        timeline = self.homes[op.result] = _timeline(op.result.type.device, op.stream)
        self.written.setdefault(op.result, {})[op.result, timeline] = position

    def free(self, position: int, op: ir.Free) -> None:
        """Requires that uses precede the next owner, which uses the memory on its stream without waiting."""
        if op.storage in self.hosts:
            return  # the memory belongs to the pool until the pool is freed
        home = self.homes.get(op.storage, _timeline(op.storage.type.device, 0))
        if home != HOST:
            for uses in (self.written.get(op.storage), self.read.get(op.storage)):
                self.ordered(position, op.storage, uses, home, self.clock(home))

    def record(self, position: int, op: ir.RecordEvent) -> None:
        timeline = _timeline(op.device, op.stream)
        self.events[op.result.name] = {**self.clock(timeline), timeline: position}

    def wait(self, position: int, op: ir.WaitEvent) -> None:
        _merge(self.clock(_timeline(op.device, op.stream)), self.events.get(op.event.name, {}))

    def sync(self, position: int, op: ir.SyncEvent) -> None:
        _merge(self.clocks[HOST], self.events.get(op.event.name, {}))

    def op(self, position: int, op: ir.Op) -> None:
        effects = self.effects[position]
        is_call = isinstance(op, ir.CallingOp)
        writes = (*effects.writes, *effects.moves) if is_call else effects.writes
        if not effects.reads and not writes:
            return
        timeline = self.timeline(position, op)
        ends = self.ended(position, op, timeline) if is_call and self.ends else NO_STREAM_ENDS
        if isinstance(op, ir.CallExtern) and op.result is not None:
            self.homes[op.result] = timeline
        for early in (timeline, *ends.early):
            self.begin(position, effects.reads, writes, early)
        for late in (timeline, *ends.late):
            self.leave(position, effects.reads, (*writes, *(ir.results(op) if ends.late else ())), late)
        if isinstance(op, ir.Copy) and not op.non_blocking and timeline != HOST and self.to_host(op):
            self.clocks[HOST][timeline] = position

    def begin(self, position: int, reads: Values, writes: Values, timeline: Timeline) -> None:
        """Requires that earlier uses on other timelines have completed when the op's work starts."""
        clock = self.clock(timeline)
        for value in reads:
            for root in self.roots.get(value, NO_ROOTS):
                self.ordered(position, value, self.written.get(root), timeline, clock)
        for value in writes:
            for root in self.roots.get(value, NO_ROOTS):
                for uses in (self.written.get(root), self.read.get(root)):
                    self.ordered(position, value, uses, timeline, clock)

    def leave(self, position: int, reads: Values, writes: Values, timeline: Timeline) -> None:
        """Notes the op as the last use on this timeline."""
        for value in reads:
            for root in self.roots.get(value, NO_ROOTS):
                self.read.setdefault(root, {})[value, timeline] = position
        for value in writes:
            for root in self.roots.get(value, NO_ROOTS):
                for uses in (self.written.setdefault(root, {}), self.read.get(root, {})):
                    for same in [use for use, at in uses.items() if use[0] == value and at < position]:
                        del uses[same]
                self.written[root][value, timeline] = position

    def ended(self, position: int, op: ir.Op, timeline: Timeline) -> StreamEnds:
        """The unordered work of the callees on other streams. An event that a call returns completes after
        all of it. A loop may not leave such work, because the next trip would not wait for it."""
        callees = [self.ends.get(name, NO_STREAM_ENDS) for name in ir.callees(op)]
        early = frozenset[Timeline]().union(*(e.early for e in callees))
        late = frozenset[Timeline]().union(*(e.late for e in callees))
        if isinstance(op, ir.WhileLoop) and late:
            device, stream = min(late)
            self.report("WIR045", f"a trip leaves work on stream {stream} of {device}", position)
        for value in ir.results(op):
            if isinstance(value.type, ir.OpaqueType):
                self.events[value.name] = {
                    **self.clock(timeline),
                    **dict.fromkeys((timeline, *late), position),
                }
        return StreamEnds(early, late)

    def to_host(self, op: ir.Copy) -> bool:
        return op.dst.type.device.type == "cpu"

    def ordered(
        self, position: int, value: ir.Value, before: Uses | None, timeline: Timeline, clock: Clock
    ) -> None:
        """Reports the last use in `before` of bytes of `value` that may not have completed."""
        pending = [
            (last, other)
            for (tensor, other), last in (before or {}).items()
            if other not in (timeline, HOST) and clock.get(other, -1) < last and self.meet(tensor, value)
        ]
        if pending:
            last, (device, stream) = max(pending)
            where = f"stream {stream} of {device}"
            self.report("WIR045", f"%{value.name} is still used on {where} since op {last}", position)

    def meet(self, a: ir.Value, b: ir.Value) -> bool:
        """Returns whether two tensors of one storage may share bytes."""
        one, other = (_geometry(x, self.places.get(x)) for x in (a, b))
        return one is None or other is None or overlap(one, other)

    def timeline(self, position: int, op: ir.Op) -> Timeline:
        """The timeline of the op's work: its stream of the first device that is not the host."""
        for value in self.facts.scanned[position][0]:
            device = ir.device_of(value)
            if device is not None and device.type != "cpu":
                return _timeline(device, stream_of(op))
        return HOST


def _geometry(value: ir.Value, place: RootOffset | None) -> Geometry | None:
    """The location of a tensor with the most elements that it may have; None if it is known only at run
    time."""
    if place is None or not ir.is_tensor(value):
        return None
    root, offset = place
    numbers = as_numbers(as_size(offset), *map(as_size, value.type.strides))
    if numbers is None:
        return None
    # in units of bytes, because an offset need not be a multiple of an element
    itemsize = value.type.dtype.itemsize
    start, *strides = numbers
    return Geometry(
        storage=root,
        sizes=(*(_ANY_SIZE if n.integer is None else n.integer for n in value.type.sizes), itemsize),
        strides=(*(s * itemsize for s in strides), 1),
        offset=start,
        itemsize=1,
    )


def _merge(into: Clock, more: Clock) -> None:
    for timeline, position in more.items():
        if into.get(timeline, -1) < position:
            into[timeline] = position

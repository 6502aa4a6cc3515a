"""Bytes that one stream writes are used on another only after an event orders the two.

Each timeline (a stream of a device) counts its ops; what a timeline knows of the others comes through events.
The host runs CPU ops in program order and sees a device's work only after a synchronisation; everything that
the host has seen, it has seen before it queues the next op anywhere. Memory comes from a stream and goes back
to it: others use it after that stream has got it, and before that stream gives it to the next. Parts of one
storage that surely do not overlap, such as what a concatenation is made of, are used apart. A call uses its
arguments and results on the current stream, and on each on which its callee begins or leaves work that the
current stream is not ordered with; what is moved into it may be freed there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.overlap import Geometry, overlap
from wrapper_ir.analysis.places import RootOffset, slot_places, tensor_places
from wrapper_ir.analysis.streams import NO_STREAM_ENDS, StreamEnds, Timeline, stream_ends
from wrapper_ir.expr import Int
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers

Clock = dict[Timeline, int]
Values = tuple[ir.Value, ...]
Uses = dict[tuple[ir.Value, Timeline], int]
"""Of one storage: the last op of each timeline that used it as this tensor."""
HOST: Timeline = ("cpu", 0)


_ANY_SIZE = 2**48
"""More elements than any dimension has."""


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
        """Where memory comes from, and goes back to; that of parameters belongs to the current stream."""
        self.ends = facts.analyses.get(stream_ends)
        self.needed = (
            bool(self.ends)
            or facts.asynchronous
            or not facts.classes.isdisjoint((ir.RecordEvent, ir.WaitEvent, ir.SyncEvent))
        )

    def outermost(self, roots: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
        """Slots as parts of their pools: what one gives back is another's to take, whatever the stream."""
        return tuple(dict.fromkeys(self.facts.aliasing.chain(root)[-1] for root in roots))

    @cached_property
    def places(self) -> Mapping[ir.Value, RootOffset]:
        """Where tensors start, those in slots in their pools; only those that two timelines use are asked
        for."""
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
        """What a timeline knows: all that the host has seen, and what it has waited for itself."""
        known = self.clocks.setdefault(timeline, {})
        _merge(known, self.clocks[HOST])
        return known

    def alloc(self, position: int, op: ir.AllocStorage) -> None:
        """Memory may still be in use on its own stream, by what had it before: to other streams, as if
        written there."""
        timeline = self.homes[op.result] = _timeline(op.result.type.device, op.stream)
        self.written.setdefault(op.result, {})[op.result, timeline] = position

    def free(self, position: int, op: ir.Free) -> None:
        """The next owner of the memory, on the memory's own stream, does not wait."""
        if op.storage in self.hosts:
            return  # the pool has the memory until it ends itself
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
        called = isinstance(op, ir.CallingOp)
        written = (*effects.writes, *effects.moves) if called else effects.writes
        if not effects.reads and not written:
            return
        timeline = self.timeline(position, op)
        ends = self.ended(position, op, timeline) if called and self.ends else NO_STREAM_ENDS
        if isinstance(op, ir.CallExtern) and op.result is not None:
            self.homes[op.result] = timeline
        for begun in (timeline, *ends.early):
            self.begin(position, effects.reads, written, begun)
        for left in (timeline, *ends.late):
            self.leave(position, effects.reads, (*written, *(ir.results(op) if ends.late else ())), left)
        if isinstance(op, ir.Copy) and not op.non_blocking and timeline != HOST and self.to_host(op):
            self.clocks[HOST][timeline] = position

    def begin(self, position: int, reads: Values, writes: Values, timeline: Timeline) -> None:
        """Work of an op begins: what it uses must be over elsewhere."""
        known = self.clock(timeline)
        for value in reads:
            for root in self.roots.get(value, NO_ROOTS):
                self.ordered(position, value, self.written.get(root), timeline, known)
        for value in writes:
            for root in self.roots.get(value, NO_ROOTS):
                for uses in (self.written.get(root), self.read.get(root)):
                    self.ordered(position, value, uses, timeline, known)

    def leave(self, position: int, reads: Values, writes: Values, timeline: Timeline) -> None:
        """The op was the last to use them, on this timeline among others."""
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
        """What the functions that an op calls begin and leave on other streams. An event that it returns
        happens after all of that; what one trip of a loop leaves, the next one would have to wait for."""
        found = [self.ends.get(name, NO_STREAM_ENDS) for name in ir.callees(op)]
        early = frozenset[Timeline]().union(*(e.early for e in found))
        late = frozenset[Timeline]().union(*(e.late for e in found))
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
        self, position: int, value: ir.Value, before: Uses | None, timeline: Timeline, known: Clock
    ) -> None:
        """Reports the last use, in `before`, of any of the bytes of `value` that may not be over."""
        pending = [
            (last, other)
            for (used, other), last in (before or {}).items()
            if other not in (timeline, HOST) and known.get(other, -1) < last and self.meet(used, value)
        ]
        if pending:
            last, (device, stream) = max(pending)
            where = f"stream {stream} of {device}"
            self.report("WIR045", f"%{value.name} is still used on {where} since op {last}", position)

    def meet(self, a: ir.Value, b: ir.Value) -> bool:
        """Whether two tensors of one storage may have bytes in common."""
        found = [_geometry(x, self.places.get(x)) for x in (a, b)]
        one, other = found
        return one is None or other is None or overlap(one, other)

    def timeline(self, position: int, op: ir.Op) -> Timeline:
        """Where the op's work happens: on its stream of the first device that is not the host."""
        stream = (
            op.stream
            if isinstance(op, ir.Launch | ir.CallExtern | ir.Copy | ir.CollectiveStart | ir.Slot)
            else 0
        )
        for value in self.facts.scanned[position][0]:
            device = ir.device_of(value)
            if device is not None and device.type != "cpu":
                return _timeline(device, stream)
        return HOST


def _geometry(value: ir.Value, place: RootOffset | None) -> Geometry | None:
    """Where a tensor lies in its storage, as many elements as it may have; None where only run time will
    tell."""
    if place is None or not ir.is_tensor(value):
        return None
    root, offset = place
    strides = [s.value for s in value.type.strides if isinstance(s, Int)]
    if not isinstance(offset, Int) or len(strides) < len(value.type.strides):
        return None
    # bytes as elements: an offset need not be a multiple of an element
    itemsize = value.type.dtype.itemsize
    return Geometry(
        storage=root,
        sizes=(*(n.value if isinstance(n, Int) else _ANY_SIZE for n in value.type.sizes), itemsize),
        strides=(*(s * itemsize for s in strides), 1),
        offset=offset.value,
        itemsize=1,
    )


def _merge(into: Clock, more: Clock) -> None:
    for timeline, position in more.items():
        if into.get(timeline, -1) < position:
            into[timeline] = position

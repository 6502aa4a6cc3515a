"""Memory that several streams use, and work that functions leave on streams."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TypeGuard

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses

_Queued = ir.AllocStorage | ir.OperatorCall | ir.Copy | ir.Launch | ir.Slot


def _is_queued(op: ir.Op) -> TypeGuard[_Queued]:
    """Whether the op has a stream: of slots, those that are filled with zeros."""
    return isinstance(op, _Queued) and not (isinstance(op, ir.Slot) and op.zero is ir.ZeroMode.NONE)


def crossing_streams(function: ir.Function, analyses: Analyses) -> Set[ir.Value]:
    """Roots, and names of tensors over them, that ops of several streams make or use. Parameters come from the current
    stream."""
    aliasing = analyses.aliasing(function)
    ends = analyses.get(stream_ends)
    queued = [(op, _streams(op, ends)) for op in function.body if _is_queued(op) or ir.callees(op)]
    if not any(used != {0} for _, used in queued):
        return frozenset()
    streams: dict[ir.Value, set[int]] = {p.value: {0} for p in function.params}
    for op, used in queued:
        for value in (*ir.results(op), *ir.operands(op)):
            held = [outer for root in aliasing.roots.get(value, NO_ROOTS) for outer in aliasing.chain(root)]
            for root in (value, *held):
                streams.setdefault(root, set()).update(used)
    crossing = {value for value, used in streams.items() if len(used) > 1}
    named = {v for v, roots in aliasing.roots.items() if not crossing.isdisjoint(roots)}
    return crossing | named


def _streams(op: ir.Op, ends: Mapping[str, StreamEnds]) -> Set[int]:
    """Those that an op's work is on; of a call, also those that its caller has to order."""
    if _is_queued(op):
        return {op.stream}
    found = [ends.get(name, NO_STREAM_ENDS) for name in ir.callees(op)]
    return {0}.union(stream for e in found for _, stream in e.early | e.late)


Timeline = tuple[str, int]
"""A device, and the number of one of its streams; 0 is the current one."""
_Clock = dict[Timeline, int]
"""By timeline, the last op of it that is over."""


@dataclass(frozen=True, slots=True)
class StreamEnds:
    """Streams other than the current one that a call of a function puts work on. `early` ones begin it without waiting for what
    the caller has queued on the current stream; the current stream goes on without waiting for that of `late` ones."""

    early: frozenset[Timeline] = frozenset()
    late: frozenset[Timeline] = frozenset()


NO_STREAM_ENDS = StreamEnds()


def stream_ends(analyses: Analyses) -> Mapping[str, StreamEnds]:
    """By function, what it and its callees leave to their callers. Those that leave nothing, and recursive ones (which the
    verifier refuses), are not in it. An event from elsewhere counts as one of the caller's current stream."""
    found: dict[str, StreamEnds] = {}
    if any(op.stream for op in analyses.program.ops if _is_queued(op)):
        seen: set[str] = set()
        for name in analyses.functions:
            _visit(name, analyses, found, seen)
    return found


def _visit(name: str, analyses: Analyses, found: dict[str, StreamEnds], seen: set[str]) -> None:
    if name in seen or name not in analyses.functions:
        return
    seen.add(name)
    function = analyses.functions[name]
    for op in function.body:
        for callee in ir.callees(op):
            _visit(callee, analyses, found, seen)
    ends = _Ends(found).of(function)
    if ends != NO_STREAM_ENDS:
        found[name] = ends


class _Ends:
    """One pass over a function, with clocks as the verifier has them; before the first op, -1, is what the caller queued."""

    def __init__(self, callees: Mapping[str, StreamEnds]) -> None:
        self.callees = callees
        self.clocks: dict[Timeline, _Clock] = {}
        self.host: _Clock = {}
        self.events: dict[ir.Value, _Clock] = {}
        self.work: _Clock = {}
        self.early: set[Timeline] = set()

    def clock(self, timeline: Timeline) -> _Clock:
        """What is over for the next work of a timeline."""
        current = (timeline[0], 0)
        known = self.clocks.setdefault(timeline, {current: -1} if timeline == current else {})
        _merge(known, self.host)
        return known

    def of(self, function: ir.Function) -> StreamEnds:
        """What the function leaves."""
        for position, op in enumerate(function.body):
            self.op(position, op)
        late = {t for t, last in self.work.items() if t[1] and self.clock((t[0], 0)).get(t, -1) < last}
        return StreamEnds(frozenset(self.early), frozenset(late))

    def op(self, position: int, op: ir.Op) -> None:
        if isinstance(op, ir.RecordEvent):
            timeline = (str(op.device), op.stream)
            self.events[op.result] = {**self.clock(timeline), timeline: position}
        elif isinstance(op, ir.WaitEvent):
            current = (str(op.device), 0)
            _merge(self.clock((str(op.device), op.stream)), self.events.get(op.event, {current: -1}))
        elif isinstance(op, ir.SyncEvent):
            _merge(self.host, self.events.get(op.event, {}))
        elif _is_queued(op):
            devices = {
                str(d)
                for v in (*ir.operands(op), *ir.results(op))
                if (d := ir.device_of(v)) and d.type != "cpu"
            }
            for device in devices if not isinstance(op, ir.AllocStorage) else ():
                self.begins((device, op.stream))
                self.work[device, op.stream] = position
        for name in ir.callees(op):
            ends = self.callees.get(name, NO_STREAM_ENDS)
            for timeline in ends.early:
                self.begins(timeline)
            self.work.update(dict.fromkeys(ends.late, position))

    def begins(self, timeline: Timeline) -> None:
        """Work begins on a timeline."""
        if (timeline[0], 0) not in self.clock(timeline):
            self.early.add(timeline)


def _merge(into: _Clock, more: Mapping[Timeline, int]) -> None:
    for timeline, position in more.items():
        into[timeline] = max(into.get(timeline, -1), position)

"""Finds memory that several streams use, and work that functions leave on streams."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TypeGuard

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses

_Queued = ir.AllocStorage | ir.OperatorCall | ir.Copy | ir.Launch | ir.Slot
StreamOp = _Queued | ir.RecordEvent | ir.WaitEvent
"""Ops with a stream."""


def stream_of(op: ir.Op) -> int:
    """The stream of an op; 0, the current stream, if it has none."""
    return op.stream if isinstance(op, StreamOp) else 0


def _is_queued(op: ir.Op) -> TypeGuard[_Queued]:
    """Returns whether the op runs on a stream; a slot does if it is filled with zeros."""
    return isinstance(op, _Queued) and not (isinstance(op, ir.Slot) and op.zero is ir.ZeroMode.NONE)


def crossing_streams(function: ir.Function, analyses: Analyses) -> Set[ir.Value]:
    """Roots, and names of tensors over them, that ops on several streams define or use. Parameters belong to
    the current stream."""
    aliasing = analyses.aliasing(function)
    ends = analyses.get(stream_ends)
    queued = [(op, _streams(op, ends)) for op in function.body if _is_queued(op) or ir.callees(op)]
    if not any(op_streams != {0} for _, op_streams in queued):
        return frozenset()
    streams: dict[ir.Value, set[int]] = {p.value: {0} for p in function.params}
    for op, op_streams in queued:
        for value in (*ir.results(op), *ir.operands(op)):
            roots = [outer for root in aliasing.roots.get(value, NO_ROOTS) for outer in aliasing.chain(root)]
            for root in (value, *roots):
                streams.setdefault(root, set()).update(op_streams)
    crossing = {value for value, op_streams in streams.items() if len(op_streams) > 1}
    names = {v for v, roots in aliasing.roots.items() if not crossing.isdisjoint(roots)}
    return crossing | names


def _streams(op: ir.Op, ends: Mapping[str, StreamEnds]) -> Set[int]:
    """The streams of an op's work, including those that the caller of a function must order."""
    if _is_queued(op):
        return {op.stream}
    callees = [ends.get(name, NO_STREAM_ENDS) for name in ir.callees(op)]
    return {0}.union(stream for e in callees for _, stream in e.early | e.late)


Timeline = tuple[str, int]
"""A device, and the number of one of its streams; 0 is the current one."""
_Clock = dict[Timeline, int]
"""The last op of each timeline that has completed."""


@dataclass(frozen=True, slots=True)
class StreamEnds:
    """Streams other than the current one on which a call of a function queues work.

    Work on `early` streams starts without waiting for the caller's work on the current stream. The current
    stream continues without waiting for work on `late` streams.
    """

    early: frozenset[Timeline] = frozenset()
    late: frozenset[Timeline] = frozenset()


NO_STREAM_ENDS = StreamEnds()


def stream_ends(analyses: Analyses) -> Mapping[str, StreamEnds]:
    """The unordered work of each function and its callees. Functions without any, and recursive ones (which
    the verifier refuses), are omitted. An event of the caller counts as recorded on the caller's current
    stream."""
    ends: dict[str, StreamEnds] = {}
    if any(op.stream for op in analyses.program.ops if _is_queued(op)):
        visited: set[str] = set()
        for name in analyses.functions:
            _visit(name, analyses, ends, visited)
    return ends


def _visit(name: str, analyses: Analyses, ends: dict[str, StreamEnds], visited: set[str]) -> None:
    if name in visited or name not in analyses.functions:
        return
    visited.add(name)
    function = analyses.functions[name]
    for op in function.body:
        for callee in ir.callees(op):
            _visit(callee, analyses, ends, visited)
    own = _Ends(ends).of(function)
    if own != NO_STREAM_ENDS:
        ends[name] = own


class _Ends:
    """One pass over a function, with clocks as in the verifier; position -1 is the caller's work before the
    first op."""

    def __init__(self, callees: Mapping[str, StreamEnds]) -> None:
        self.callees = callees
        self.clocks: dict[Timeline, _Clock] = {}
        self.host: _Clock = {}
        self.events: dict[ir.Value, _Clock] = {}
        self.work: _Clock = {}
        self.early: set[Timeline] = set()

    def clock(self, timeline: Timeline) -> _Clock:
        """The ops that have completed when the next work of a timeline starts."""
        current = (timeline[0], 0)
        clock = self.clocks.setdefault(timeline, {current: -1} if timeline == current else {})
        _merge(clock, self.host)
        return clock

    def of(self, function: ir.Function) -> StreamEnds:
        """Runs the pass."""
        for position, op in enumerate(function.body):
            self.op(position, op)
        late = {t for t, last in self.work.items() if t[1] and self.clock((t[0], 0)).get(t, -1) < last}
        return StreamEnds(frozenset(self.early), frozenset(late))

    def op(self, position: int, op: ir.Op) -> None:
        match op:
            case ir.RecordEvent():
                timeline = (str(op.device), op.stream)
                self.events[op.result] = {**self.clock(timeline), timeline: position}
            case ir.WaitEvent():
                current = (str(op.device), 0)
                _merge(self.clock((str(op.device), op.stream)), self.events.get(op.event, {current: -1}))
            case ir.SyncEvent():
                _merge(self.host, self.events.get(op.event, {}))
            case ir.AllocStorage():
                pass
            case _ if _is_queued(op):
                devices = map(ir.device_of, (*ir.operands(op), *ir.results(op)))
                for device in {str(d) for d in devices if d is not None and d.type != "cpu"}:
                    self.begins((device, op.stream))
                    self.work[device, op.stream] = position
        for name in ir.callees(op):
            ends = self.callees.get(name, NO_STREAM_ENDS)
            for timeline in ends.early:
                self.begins(timeline)
            self.work.update(dict.fromkeys(ends.late, position))

    def begins(self, timeline: Timeline) -> None:
        """Starts work on a timeline."""
        if (timeline[0], 0) not in self.clock(timeline):
            self.early.add(timeline)


def _merge(into: _Clock, more: Mapping[Timeline, int]) -> None:
    for timeline, position in more.items():
        into[timeline] = max(into.get(timeline, -1), position)

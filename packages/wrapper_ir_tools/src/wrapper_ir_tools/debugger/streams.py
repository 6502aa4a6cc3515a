"""Reorders the work of streams in another order that events allow, so that a race becomes visible.

The interpreter runs ops sequentially. In another legal order, work of some streams is delayed until it is
needed: by an event that another stream or the host waits for, a copy to the host, a value on the host, or the
end of the function.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator

from wrapper_ir import ir

_Timeline = tuple[ir.Device, int]


class StreamOrder(enum.Enum):
    """Selects the streams to delay: all but the current one, or the current one."""

    LATE = "late"
    EARLY = "early"


def other_stream_order(program: ir.Program, order: StreamOrder) -> ir.Program:
    """Returns the program with the ops of each function in another legal order; unchanged for one stream."""
    return program.with_functions(f.with_body(_Reordering(f, order).body()) for f in program.functions)


class _Reordering:
    """One function: delayed ops by timeline, and the ops in their new order."""

    def __init__(self, function: ir.Function, order: StreamOrder) -> None:
        self._ops = function.body
        self._order = order
        self._definers = {v: p for p, op in enumerate(function.body) for v in ir.results(op)}
        self._homes: dict[ir.Value, _Timeline] = {}
        """The stream that allocates each storage, to which it returns."""
        self._waiting: dict[_Timeline, deque[int]] = {}
        self._timelines: dict[int, _Timeline] = {}
        """Of ops that wait."""
        self._placed: list[int] = []
        self._done: set[int] = set()

    def body(self) -> Iterator[ir.Op]:
        """The ops in their new order."""
        for position, op in enumerate(self._ops):
            timeline = self._timeline(op)
            if isinstance(op, ir.Return):
                for queue in list(self._waiting.values()):
                    self._drain(queue)
            if timeline is None or not self._is_late(timeline):
                self._place(position)
            else:
                self._waiting.setdefault(timeline, deque()).append(position)
                self._timelines[position] = timeline
        return (self._ops[p] for p in self._placed)

    def _is_late(self, timeline: _Timeline) -> bool:
        return (timeline[1] != 0) is (self._order is StreamOrder.LATE)

    def _timeline(self, op: ir.Op) -> _Timeline | None:
        """The stream that executes the op; None for ops of the host."""
        device = self._device(op)
        match op:
            case ir.RecordEvent() | ir.WaitEvent():
                return (op.device, op.stream) if op.device.type != ir.CPU.type else None
            case ir.Free():
                return self._homes.get(op.storage) or (None if device is None else (device, 0))
            case ir.Drop(value=value):
                return self._timeline_of(value, ends=True)
            case ir.View(source=source, mode=mode):
                return self._timeline_of(source, ends=mode is ir.ViewMode.REUSE)
            case ir.Unpack(source=source):
                return self._timeline_of(source, ends=False)
            case ir.AllocStorage() if device is not None:
                self._homes[op.result] = (device, op.stream)
                return None
            case ir.Launch() | ir.CallExtern() | ir.Copy() | ir.CollectiveStart() if device is not None:
                return (device, op.stream)
            case _:
                return None

    def _device(self, op: ir.Op) -> ir.Device | None:
        devices = (ir.device_of(v) for v in (*ir.operands(op), *ir.results(op)))
        return next((d for d in devices if d is not None and d.type != ir.CPU.type), None)

    def _timeline_of(self, value: ir.Value, *, ends: bool) -> _Timeline | None:
        """The timeline of a naming op: that of the last delayed op that defines the name.

        An op that ends the name also follows ops that use it.
        """
        for position in reversed(self._timelines):
            waiting = self._ops[position]
            if value in ir.results(waiting) or (ends and value in ir.operands(waiting)):
                return self._timelines[position]
        return None

    def _place(self, position: int) -> None:
        """Appends an op after the ops that it depends on."""
        op = self._ops[position]
        for value in ir.operands(op):
            definer = self._definers.get(value)
            if definer is not None and definer not in self._done:
                self._drain(self._waiting[self._timelines[definer]], definer)
        device = self._device(op)
        if device is not None and self._waits(op):
            stream = op.stream if isinstance(op, ir.Copy) else 0
            self._drain(self._waiting.get((device, stream), deque()))
        self._timelines.pop(position, None)
        self._done.add(position)
        self._placed.append(position)

    def _waits(self, op: ir.Op) -> bool:
        """True if the host reads a value that a stream computes."""
        match op:
            case ir.Define(expr=expr):
                return bool(ir.item_values(expr))
            case ir.Copy():
                return op.dst.type.device.type == ir.CPU.type and not op.non_blocking
            case ir.AssertFinite() | ir.DebugValue() | ir.Switch() | ir.WhileLoop() | ir.CallSubgraph():
                return True
            case _:
                return False

    def _drain(self, queue: deque[int], last: int | None = None) -> None:
        """Appends delayed ops of a timeline, up to `last` or all."""
        while queue and (last is None or queue[0] <= last):
            self._place(queue.popleft())

"""Streams: assigns ops to streams, orders streams, and begins and ends them with the program.

Inductor's nodes refer to streams and events by a number of the trace; 0 is the current stream of the caller.
A program has separate streams. They begin when all work that was queued before the call is done, and work
after the call waits for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from torch._inductor.ir import FallbackKernel

from inductor_frontend.errors import HookError
from inductor_frontend.record.events import AlignInput, CallNode, CheckInput, Event, OnStream
from inductor_frontend.scope.outer_streams import OuterStreams
from wrapper_ir import ir
from wrapper_ir.builder import FunctionBuilder

_NAMESPACE = "streams::"


def is_order(node: object) -> bool:
    """Returns whether an extern node orders streams."""
    return isinstance(node, FallbackKernel) and _operator(node).startswith(_NAMESPACE)


def _operator(node: FallbackKernel) -> str:
    schema = getattr(node.op_overload, "_schema", None)  # higher-order operators have none
    return "" if schema is None else str(schema.name)


def _numbers(node: FallbackKernel) -> list[int]:  # followed by a device's type, which is not read
    return list(node.constant_args)


def _named(events: Iterable[Event]) -> tuple[int, ...]:
    """Returns Inductor's numbers of the streams that a recording uses, except the current stream."""
    streams: dict[int, None] = {}
    for event in events:
        match event:
            case OnStream(stream):
                streams[stream] = None
            case CallNode(FallbackKernel() as node) if is_order(node):
                streams |= dict.fromkeys(_order_streams(_operator(node), _numbers(node)))
            case _:
                pass
    return tuple(n for n in streams if n)


def _order_streams(operator: str, numbers: list[int]) -> list[int]:
    match operator.removeprefix(_NAMESPACE):
        case "record_event" | "wait_event" | "sync_dealloc":
            return [numbers[1]]
        case "wait_stream":
            return numbers[:2]
        case "synchronize_stream":
            return numbers[:1]
        case _:
            return []


class Streams:
    """The streams of one function's translation.

    `devices` are the indices of the GPUs that its graph uses; `nested` functions are called by others.
    """

    def __init__(self, function: FunctionBuilder, devices: Collection[int], *, nested: bool) -> None:
        self._function = function
        self._devices = devices
        self._nested = nested
        self._device = ir.Device("cuda", min(devices, default=0))
        self._numbers: dict[int, int] = {0: 0}
        self._events: dict[int, ir.Value[ir.OpaqueType]] = {}
        self._awaited: dict[int, None] = {}
        self._now = 0

    @property
    def outer(self) -> OuterStreams:
        """Relation to the caller's streams."""
        return OuterStreams(tuple(self._numbers)[1:], tuple(self._events), tuple(self._awaited))

    @property
    def _others(self) -> list[int]:
        return list(self._numbers.values())[1:]

    def split_prologue(self, events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
        """Numbers the streams of a recording, and splits its events into those before and after streams
        begin.

        Raises HookError FE202 for streams in a subgraph, or of several devices.
        """
        streams = _named(events)
        if not streams:
            return [], list(events)
        if self._nested or len(self._devices) > 1:
            raise _refused("inside control flow" if self._nested else "of several devices")
        self._numbers |= {n: i for i, n in enumerate(streams, 1)}
        # An aligned copy may be read on any stream.
        before: list[Event] = [e for e in events if isinstance(e, CheckInput | AlignInput)]
        return before, [e for e in events if not isinstance(e, CheckInput | AlignInput)]

    def begin(self) -> None:
        """Makes all streams wait for work that was queued before the call."""
        if self._others:
            start = self._record(0)
            for number in self._others:
                self._wait(start, number)

    def end(self) -> None:
        """Makes work after the call wait for all streams, and all streams for each other, since memory
        returns to them."""
        self._now = 0
        for number in self._others:
            self._wait(self._record(number), 0)
        if self._others:
            joined = self._record(0)
            for number in self._others:
                self._wait(joined, number)

    def enter(self, event: OnStream) -> None:
        """Selects the stream of the ops that follow."""
        self._now = self._numbers[event.stream]

    def place(self, begin: int) -> None:
        """Assigns the ops since position `begin` to the selected stream."""
        if self._now:
            ops = self._function.ops
            ops[begin:] = [_on(op, self._now) for op in ops[begin:]]

    def order(self, node: FallbackKernel) -> None:
        """Emits an operator that orders streams."""
        numbers = _numbers(node)
        match _operator(node).removeprefix(_NAMESPACE):
            case "record_event":
                self._events[numbers[0]] = self._record(self._numbers[numbers[1]])
            case "wait_event" | "sync_dealloc":
                if (event := self._event(numbers[0])) is not None:
                    self._wait(event, self._numbers[numbers[1]])
            case "wait_stream":
                self._wait(self._record(self._numbers[numbers[1]]), self._numbers[numbers[0]])
            case "synchronize_event":
                self._sync(self._event(numbers[0]) or self._record(0))
            case "synchronize_stream":
                self._sync(self._record(self._numbers[numbers[0]]))
            case "synchronize_device":
                for number in self._numbers.values():
                    self._sync(self._record(number))
            case "record_stream":
                pass  # memory that several streams use stays allocated until they have joined
            case other:
                raise HookError("FE202", f"streams::{other} has no counterpart in a program")

    def _event(self, number: int) -> ir.Value[ir.OpaqueType] | None:
        """Returns an event of the program; None for an event that the caller records: all streams already
        wait for it."""
        if number not in self._events:
            self._awaited[number] = None
        return self._events.get(number)

    def _record(self, stream: int) -> ir.Value[ir.OpaqueType]:
        event = self._function.value("event", ir.OpaqueType(ir.OpaqueKind.EVENT))
        prov = self._function.prov
        self._function.append(ir.RecordEvent(result=event, device=self._device, stream=stream, prov=prov))
        return event

    def _wait(self, event: ir.Value[ir.OpaqueType], stream: int) -> None:
        prov = self._function.prov
        self._function.append(ir.WaitEvent(event=event, device=self._device, stream=stream, prov=prov))

    def _sync(self, event: ir.Value[ir.OpaqueType]) -> None:
        self._function.append(ir.SyncEvent(event=event, prov=self._function.prov))


def _on(op: ir.Op, stream: int) -> ir.Op:
    """Returns the op on a stream; ops of the host are unchanged. Raises HookError FE202 for control flow."""
    match op:
        case ir.CallSubgraph() | ir.Switch() | ir.WhileLoop():
            raise _refused("around control flow")
        case ir.AllocStorage() | ir.CallExtern() | ir.CollectiveStart() | ir.Copy() | ir.Launch():
            types = [v.type for v in (*ir.results(op), *ir.operands(op))]
            devices = [t.device for t in types if isinstance(t, ir.TensorType | ir.StorageType)]
            return dataclasses.replace(op, stream=stream) if any(d.type != "cpu" for d in devices) else op
        case _:
            return op


def _refused(where: str) -> HookError:
    return HookError("FE202", f"the model enters streams {where}", hint="do not use torch.cuda.stream there")

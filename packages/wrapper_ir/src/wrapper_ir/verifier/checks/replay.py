"""Checks that a device can capture and replay replayable functions and their callees; see
`Function.replayable`."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.replayable import refusals, replayed_functions
from wrapper_ir.analysis.streams import stream_of
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers


class Replay(Check):
    """WIR225 to WIR228, WIR280, WIR281."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        part_of = facts.analyses.get(replayed_functions).get(facts.function.name)
        self.needed = part_of is not None
        self.where = f"@{part_of} is replayable"
        self.device: ir.Device | None = None
        self.work: dict[int, int] = {}
        """The position of the last work on each stream other than the current one."""
        self.events: dict[ir.Value, set[int]] = {}
        """The streams whose work an event waits for."""
        self.joined: dict[int, set[int]] = {}
        """The streams whose work each stream has waited for so far."""
        for param in facts.function.params:
            if param.static and not ir.is_tensor(param.value):
                self.report("WIR280", f"%{param.value.name} is not a tensor", -1)
        if self.needed:
            for param in facts.function.params:
                self.place(-1, param.value)
                device = ir.device_of(param.value)
                if device is not None and _is_host(device):
                    self.refuse("WIR226", f"%{param.value.name} is on {device}", -1)
                if param.ownership is ir.Ownership.OWNED and not facts.function.replayable:
                    self.refuse("WIR227", f"%{param.value.name} would be the graph's", -1)

    def refuse(self, code: str, why: str, position: int) -> None:
        self.report(code, f"{why}, and {self.where}", position)

    def every(self) -> Handler | None:
        return self.op if self.needed else None

    def handlers(self) -> Handlers:
        return {ir.RecordEvent: self.mark, ir.WaitEvent: self.wait} if self.needed else {}

    def op(self, position: int, op: ir.Op) -> None:
        for code, why in refusals(op, self.facts.analyses):
            self.refuse(code, why, position)
        for value in (*self.facts.results[position], *self.facts.scanned[position][0]):
            self.place(position, value)
        if not isinstance(op, ir.RecordEvent | ir.WaitEvent):
            self.queue(position, stream_of(op))

    def place(self, position: int, value: ir.Value) -> None:
        """Requires that a value is on the device of earlier ones; `refusals` reports values on the CPU."""
        device = ir.device_of(value)
        if device is None or _is_host(device):
            return
        self.device = self.device or device
        if device != self.device:
            self.refuse("WIR226", f"%{value.name} is on {device}, other memory on {self.device}", position)

    # --- streams

    def queue(self, position: int, stream: int) -> None:
        """Adds work on a stream, which no stream has waited for yet."""
        if stream:
            if stream not in self.joined:
                self.refuse("WIR228", f"stream {stream} has waited for nothing of the capture", position)
            self.work[stream] = position
            for streams in (*self.joined.values(), *self.events.values()):
                streams.discard(stream)

    def mark(self, position: int, op: ir.RecordEvent) -> None:
        self.events[op.result] = {op.stream, *self.joined.get(op.stream, ())}

    def wait(self, position: int, op: ir.WaitEvent) -> None:
        waited_for = self.events.get(op.event)
        if waited_for is None:
            self.refuse("WIR228", f"%{op.event.name} is an event of its caller", position)
            return
        if op.stream:
            self.work.setdefault(op.stream, position)  # the stream is part of the graph from here on
        self.joined.setdefault(op.stream, set()).update(waited_for)

    def finish(self) -> None:
        for stream, position in self.work.items():
            if stream not in self.joined.get(0, ()):
                self.refuse("WIR228", f"nothing waits for stream {stream}", position)
        if self.facts.function.replayable:
            self.results()

    def results(self) -> None:
        """Requires that results are fresh tensors, because each replay overwrites them."""
        function = self.facts.function
        origins = self.facts.analyses.summary(function.name).results
        for value, origin in zip(function.returns.values, origins):
            if origin is None or not origin.own or origin.params or origin.constants:
                what = f"%{value.name}" if isinstance(value, ir.Value) else str(value)
                self.report("WIR281", f"{what} is not a tensor of its own", len(function.body) - 1)


def _is_host(device: ir.Device) -> bool:
    return device.type == ir.CPU.type

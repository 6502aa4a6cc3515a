"""What a device can record and replay: see `Function.recordable`. The rules also hold for its callees."""

from __future__ import annotations

from wrapper_ir import ops
from wrapper_ir.analysis.recorded import recorded_functions
from wrapper_ir.atoms import free_values, item_values
from wrapper_ir.kernels import CppKernel
from wrapper_ir.program import Ownership
from wrapper_ir.types import CPU, Device, ScalarType
from wrapper_ir.values import Value, device_of, is_tensor
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers

__all__ = ["Recording"]

_UNKNOWN_TO_A_REPLAY = frozenset({ops.EffectClass.EFFECT, ops.EffectClass.HOST_IO})


class Recording(Check):
    """WIR225 to WIR228."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        part_of = facts.analyses.get(recorded_functions).get(facts.function.name)
        self.needed = part_of is not None
        self.where = f"@{part_of} is recordable"
        self.device: Device | None = None
        self.work: dict[int, int] = {}
        """Position of the last work on each other stream that the function's own does not know of."""
        self.events: dict[Value, set[int]] = {}
        """The streams whose work an event waits for."""
        self.joined: dict[int, set[int]] = {}
        """The streams whose work each stream has waited for, up to now."""
        if self.needed:
            for param in facts.function.params:
                self.place(-1, param.value)
                if param.ownership is Ownership.OWNED:
                    self.refuse("WIR227", f"%{param.value.name} would be the recording's", -1)

    def refuse(self, code: str, why: str, position: int) -> None:
        self.report(code, f"{why}, and {self.where}", position)

    def every(self) -> Handler | None:
        return self.op if self.needed else None

    def handlers(self) -> Handlers:
        if not self.needed:
            return {}
        change = dict.fromkeys((ops.ResizeStorage, ops.SetStorage, ops.EnterMemoryPool), self.change)
        show = dict.fromkeys((ops.SyncEvent, ops.AssertFinite, ops.DebugValue), self.show)
        return {
            ops.Define: self.define,
            ops.Switch: self.switch,
            ops.WhileLoop: self.loop,
            ops.CallExtern: self.call,
            ops.Unpack: self.number,
            ops.Launch: self.launch,
            ops.RecordEvent: self.record,
            ops.WaitEvent: self.wait,
            **change,
            **show,
        }

    def op(self, position: int, op: ops.Op) -> None:
        for value in (*self.facts.results[position], *self.facts.scanned[position][0]):
            self.place(position, value)
        if not isinstance(op, ops.RecordEvent | ops.WaitEvent):
            self.queue(position, getattr(op, "stream", 0))  # ops that queue nothing have none

    def place(self, position: int, value: Value) -> None:
        device = device_of(value)
        if device is None:
            return
        self.device = self.device or device
        if device.type == CPU.type:
            self.refuse("WIR226", f"%{value.name} is on {device}", position)
        elif device != self.device:
            self.refuse("WIR226", f"%{value.name} is on {device}, other memory on {self.device}", position)

    # --- what the host would have to see, or to do again

    def define(self, position: int, op: ops.Define) -> None:
        symbol = self.facts.analyses.symbols.get(op.symbol)
        unknown = symbol is not None and not symbol.backed
        if any(map(is_tensor, item_values(op.expr))) or (
            unknown and any(map(is_tensor, free_values(op.expr)))
        ):
            self.refuse("WIR225", f"only a run knows {op.symbol}", position)

    def switch(self, position: int, op: ops.Switch) -> None:
        if isinstance(op.index, Value) and is_tensor(op.index):
            self.refuse("WIR225", f"only a run knows %{op.index.name}", position)

    def loop(self, position: int, op: ops.WhileLoop) -> None:
        self.refuse("WIR225", "only a run knows how often a loop is run", position)

    def show(self, position: int, op: ops.SyncEvent | ops.AssertFinite | ops.DebugValue) -> None:
        self.refuse("WIR225", "the host waits for the device here", position)

    def call(self, position: int, op: ops.CallExtern) -> None:
        if not _UNKNOWN_TO_A_REPLAY.isdisjoint(op.effects(self.facts.analyses).classes):
            self.refuse("WIR225", f"{op.target} does something that a replay does not", position)
        self.number(position, op)

    def number(self, position: int, op: ops.CallExtern | ops.Unpack) -> None:
        if op.result is not None and isinstance(op.result.type, ScalarType):
            self.refuse("WIR225", f"only a run knows %{op.result.name}", position)

    def launch(self, position: int, op: ops.Launch) -> None:
        if isinstance(self.facts.analyses.kernels.get(op.kernel), CppKernel):
            self.refuse("WIR226", f"@{op.kernel} runs on the CPU", position)

    # --- memory

    def change(self, position: int, op: ops.ResizeStorage | ops.SetStorage | ops.EnterMemoryPool) -> None:
        why = "a recording's memory comes from its own pool"
        if not isinstance(op, ops.EnterMemoryPool):
            why = f"the storage of %{op.target.name} is another after it"
        self.refuse("WIR227", why, position)

    # --- streams

    def queue(self, position: int, stream: int) -> None:
        """Work on a stream that no stream has waited for yet."""
        if stream:
            if stream not in self.joined:
                self.refuse("WIR228", f"stream {stream} has waited for nothing of the recording", position)
            self.work[stream] = position
            for known in self.joined.values():
                known.discard(stream)
            for event in self.events.values():
                event.discard(stream)

    def record(self, position: int, op: ops.RecordEvent) -> None:
        self.events[op.result] = {op.stream, *self.joined.get(op.stream, ())}

    def wait(self, position: int, op: ops.WaitEvent) -> None:
        waited_for = self.events.get(op.event)
        if waited_for is None:
            self.refuse("WIR228", f"%{op.event.name} is an event of its caller", position)
            return
        if op.stream:
            self.work.setdefault(op.stream, position)  # it takes part from here on
        self.joined.setdefault(op.stream, set()).update(waited_for)

    def finish(self) -> None:
        for stream, position in self.work.items():
            if stream not in self.joined.get(0, ()):
                self.refuse("WIR228", f"nothing waits for stream {stream}", position)

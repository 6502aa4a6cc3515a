"""Types make sense by themselves: as many strides as sizes, nothing negative."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers


class Types(Check):
    """WIR040 to WIR044, and WIR034 for sizes that are not ints."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        for param in facts.function.params:
            self.type(-1, param.value.name, param.value.type)
        for position, value in facts.wrong:
            self.type(position, value.name, value.type)

    def type(self, position: int, name: str, type: ir.Type) -> None:
        for code, message in self.facts.types(type).problems:
            self.report(code, f"%{name}: {message}", position)

    def handlers(self) -> Handlers:
        stream, aligned = self.stream, self.aligned
        streamed = (
            ir.AllocStorage,
            ir.Slot,
            ir.Copy,
            ir.Launch,
            ir.CallExtern,
            ir.CollectiveStart,
            ir.RecordEvent,
            ir.WaitEvent,
        )
        return dict.fromkeys(streamed, stream) | dict.fromkeys((ir.EnsureAligned, ir.AssertLayout), aligned)

    def stream(
        self,
        position: int,
        op: ir.AllocStorage
        | ir.Slot
        | ir.Copy
        | ir.Launch
        | ir.CallExtern
        | ir.CollectiveStart
        | ir.RecordEvent
        | ir.WaitEvent,
    ) -> None:
        if op.stream < 0:
            self.report("WIR044", f"there is no stream {op.stream}", position)
        if op.stream or (isinstance(op, ir.Copy) and op.non_blocking):
            self.facts.asynchronous = True

    def aligned(self, position: int, op: ir.EnsureAligned | ir.AssertLayout) -> None:
        n = op.alignment
        if n < 0 or n & (n - 1) or (n == 0 and isinstance(op, ir.EnsureAligned)):
            self.report("WIR044", f"{n} is not an alignment", position)

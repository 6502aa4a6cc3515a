"""Types make sense by themselves: as many strides as sizes, nothing negative."""

from __future__ import annotations

from wrapper_ir.ir.ops import (
    AllocStorage,
    AssertLayout,
    CallExtern,
    CollectiveStart,
    Copy,
    EnsureAligned,
    Launch,
    RecordEvent,
    Slot,
    WaitEvent,
)
from wrapper_ir.ir.types import Type
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers


class Types(Check):
    """WIR040 to WIR044, and WIR034 for sizes that are not ints."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        for param in facts.function.params:
            self.type(-1, param.value.name, param.value.type)
        for position, value in facts.wrong:
            self.type(position, value.name, value.type)

    def type(self, position: int, name: str, type: Type) -> None:
        for code, message in self.facts.types(type).problems:
            self.report(code, f"%{name}: {message}", position)

    def handlers(self) -> Handlers:
        stream, aligned = self.stream, self.aligned
        streamed = (AllocStorage, Slot, Copy, Launch, CallExtern, CollectiveStart, RecordEvent, WaitEvent)
        return dict.fromkeys(streamed, stream) | dict.fromkeys((EnsureAligned, AssertLayout), aligned)

    def stream(
        self,
        position: int,
        op: AllocStorage | Slot | Copy | Launch | CallExtern | CollectiveStart | RecordEvent | WaitEvent,
    ) -> None:
        if op.stream < 0:
            self.report("WIR044", f"there is no stream {op.stream}", position)
        if op.stream or (isinstance(op, Copy) and op.non_blocking):
            self.facts.asynchronous = True

    def aligned(self, position: int, op: EnsureAligned | AssertLayout) -> None:
        n = op.alignment
        if n < 0 or n & (n - 1) or (n == 0 and isinstance(op, EnsureAligned)):
            self.report("WIR044", f"{n} is not an alignment", position)

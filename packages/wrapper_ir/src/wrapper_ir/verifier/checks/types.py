"""Checks that types are valid by themselves: as many strides as sizes, and no negative constants."""

from __future__ import annotations

from typing import get_args

from wrapper_ir import ir
from wrapper_ir.analysis.streams import StreamOp
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
        return {
            **dict.fromkeys(get_args(StreamOp), stream),
            ir.Copy: self.copy,
            ir.EnsureAligned: aligned,
            ir.AssertLayout: aligned,
        }

    def stream(self, position: int, op: StreamOp) -> None:
        if op.stream < 0:
            self.report("WIR044", f"there is no stream {op.stream}", position)
        if op.stream:
            self.facts.asynchronous = True

    def copy(self, position: int, op: ir.Copy) -> None:
        self.stream(position, op)
        if op.non_blocking:
            self.facts.asynchronous = True

    def aligned(self, position: int, op: ir.EnsureAligned | ir.AssertLayout) -> None:
        n = op.alignment
        if n < 0 or n & (n - 1) or (n == 0 and isinstance(op, ir.EnsureAligned)):
            self.report("WIR044", f"{n} is not an alignment", position)

"""Scopes are brackets, and memory pools are where a device has them."""

from __future__ import annotations

from wrapper_ir.ir.ops import MAX_SCOPES, EnterMemoryPool, EnterProfile, ExitScope
from wrapper_ir.ir.types import CPU
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers


class Scopes(Check):
    """WIR221 to WIR223."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.open: list[int] = []
        """Positions of the ops that began the scopes around this point."""

    def handlers(self) -> Handlers:
        return {EnterProfile: self.enter, EnterMemoryPool: self.pool, ExitScope: self.exit}

    def enter(self, position: int, op: EnterProfile | EnterMemoryPool) -> None:
        self.open.append(position)
        if len(self.open) == MAX_SCOPES + 1:
            self.report("WIR222", f"there are {MAX_SCOPES} scopes around this one", position)

    def pool(self, position: int, op: EnterMemoryPool) -> None:
        self.enter(position, op)
        if op.device.type == CPU.type:
            self.report("WIR223", f"{op.device} has no memory pools", position)
        if not op.name:
            self.report("WIR223", "a memory pool has a name", position)

    def exit(self, position: int, op: ExitScope) -> None:
        if self.open:
            self.open.pop()
        else:
            self.report("WIR221", "no scope is open here", position)

    def finish(self) -> None:
        for position in self.open:
            self.report("WIR221", "this scope does not end in the function", position)

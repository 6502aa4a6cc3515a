"""Checks that scopes are nested, and that memory pools are on devices that have them."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers


class Scopes(Check):
    """WIR221 to WIR223."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.open: list[int] = []
        """Positions of the ops that entered the open scopes."""

    def handlers(self) -> Handlers:
        return {ir.EnterProfile: self.enter, ir.EnterMemoryPool: self.pool, ir.ExitScope: self.exit}

    def enter(self, position: int, op: ir.EnterProfile | ir.EnterMemoryPool) -> None:
        self.open.append(position)
        if len(self.open) == ir.MAX_SCOPES + 1:
            self.report("WIR222", f"there are {ir.MAX_SCOPES} scopes around this one", position)

    def pool(self, position: int, op: ir.EnterMemoryPool) -> None:
        self.enter(position, op)
        if op.device.type == ir.CPU.type:
            self.report("WIR223", f"{op.device} has no memory pools", position)
        if not op.name:
            self.report("WIR223", "a memory pool has a name", position)

    def exit(self, position: int, op: ir.ExitScope) -> None:
        if self.open:
            self.open.pop()
        else:
            self.report("WIR221", "no scope is open here", position)

    def finish(self) -> None:
        for position in self.open:
            self.report("WIR221", "this scope does not end in the function", position)

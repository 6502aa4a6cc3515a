"""Collectives are waited for exactly once; until then nothing touches their result, and nothing writes or ends
their arguments."""

from __future__ import annotations

from wrapper_ir.aliasing import NO_ROOTS
from wrapper_ir.ops import CollectiveStart, Drop, Free, Op, Wait
from wrapper_ir.values import Value
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers

__all__ = ["Collectives"]


class Collectives(Check):
    """WIR046 to WIR049."""

    name = "collectives"

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.roots = facts.aliasing.roots
        self.started: dict[str, int] = {}
        self.in_flight: dict[str, frozenset[Value]] = {}
        """Roots of the arguments of collectives not yet waited for, by the result's name."""
        self.needed = not facts.classes.isdisjoint((CollectiveStart, Wait))

    def every(self) -> Handler | None:
        return self.op if self.needed else None

    def handlers(self) -> Handlers:
        return {CollectiveStart: self.start, Wait: self.wait}

    def op(self, position: int, op: Op) -> None:
        if not self.in_flight:
            return
        for value in self.facts.scanned[position][0]:
            if value.name in self.in_flight and not isinstance(op, Wait | Free | Drop):
                self.report("WIR046", f"%{value.name} is in flight", position)
        effects = self.facts.aliasing.effects[position]
        touched = (*effects.writes, *effects.moves, *(effects.ends if isinstance(op, Free) else ()))
        done = op.source.name if isinstance(op, Wait) else ""
        for value in touched:
            for root in self.roots.get(value, NO_ROOTS):
                users = [name for name, held in self.in_flight.items() if root in held and name != done]
                if users:
                    self.report("WIR049", f"%{value.name} is an argument of %{users[0]}, in flight", position)

    def start(self, position: int, op: CollectiveStart) -> None:
        used = self.facts.scanned[position][0]
        self.in_flight[op.result.name] = frozenset(r for v in used for r in self.roots.get(v, NO_ROOTS))
        self.started[op.result.name] = position

    def wait(self, position: int, op: Wait) -> None:
        if op.source.name not in self.in_flight:
            what = "was waited for already" if op.source.name in self.started else "is no collective"
            self.report("WIR047", f"%{op.source.name} {what}", position)
        self.in_flight.pop(op.source.name, None)

    def finish(self) -> None:
        for name in self.in_flight:
            self.report("WIR048", f"%{name} is never waited for", self.started[name])

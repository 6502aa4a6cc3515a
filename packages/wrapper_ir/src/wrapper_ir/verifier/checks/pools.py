"""Tensors planned into one pool share bytes only when one is not needed any more.

A *slot* is a view made directly of a pool's storage, with all tensors made of it. It is needed from its first write
to its last use. A write to one slot while another over the same bytes is needed would destroy the other's content.
"""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.ops import AllocPurpose, AllocStorage, Drop, Free, Op, View
from wrapper_ir.values import Value
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers

__all__ = ["Pools"]


@dataclass(slots=True)
class _Slot:
    tensor: Value
    last: int = -1
    """Position of the last use of any of its tensors."""
    written: bool = False


class Pools(Check):
    """WIR059."""

    name = "pools"

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.pools: dict[str, list[_Slot]] = {}
        """Slots by pool that are written and still needed."""
        self.slot_of: dict[str, tuple[str, _Slot]] = {}
        pooled = (
            isinstance(op, AllocStorage) and op.purpose is AllocPurpose.POOL for op in facts.function.body
        )
        self.needed = any(pooled)
        if self.needed:
            self.collect()

    def collect(self) -> None:
        """Finds slots and their last uses; aliases of slot tensors belong to the slot."""
        effects = self.facts.aliasing.effects
        for position, op in enumerate(self.facts.function.body):
            if isinstance(op, AllocStorage) and op.purpose is AllocPurpose.POOL:
                self.pools[op.result.name] = []
            if isinstance(op, Free | Drop):
                continue
            for value in self.facts.scanned[position][0]:
                if value.name in self.slot_of:
                    self.slot_of[value.name][1].last = position
            if isinstance(op, View) and op.source.name in self.pools:
                self.slot_of[op.result.name] = (op.source.name, _Slot(op.result))
                continue
            for result, source in (*effects[position].aliases, *effects[position].may_alias):
                if source.name in self.slot_of:
                    self.slot_of[result.name] = self.slot_of[source.name]

    def every(self) -> Handler | None:
        return self.op if self.needed else None

    def handlers(self) -> Handlers:
        return {}

    def op(self, position: int, op: Op) -> None:
        for value in self.facts.aliasing.effects[position].writes:
            found = self.slot_of.get(value.name)
            if found is not None:
                self.write(position, value, *found)

    def write(self, position: int, value: Value, pool: str, slot: _Slot) -> None:
        live = [s for s in self.pools[pool] if s.last > position or s is slot]
        for other in live:
            if other is not slot and self.facts.overlap(slot.tensor, other.tensor):
                self.report(
                    "WIR059",
                    f"%{value.name} is written over %{other.tensor.name}, which op {other.last} still needs",
                    position,
                )
        if not slot.written:
            slot.written = True
            live.append(slot)
        self.pools[pool] = live

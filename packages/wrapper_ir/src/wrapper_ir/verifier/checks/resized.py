"""Nothing touches elements that a resized storage no longer holds.

A storage of the caller may be given up for a while (`resize_storage %x, 0`) and filled again. In between it has no
memory, and a kernel would write where anything may be.
"""

from __future__ import annotations

from wrapper_ir.expr import Expr, Int
from wrapper_ir.ops import Op, ResizeStorage, SetStorage
from wrapper_ir.values import Value
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers
from wrapper_ir.verifier.proofs import shown

__all__ = ["Resized"]


class Resized(Check):
    """WIR026."""

    name = "resized"

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.effects = facts.aliasing.effects
        self.roots_at = facts.aliasing.roots_at
        self.held: dict[Value, Expr] = {}
        """Bytes in storages that were resized."""

    def every(self) -> Handler:
        return self.op

    def handlers(self) -> Handlers:
        return {ResizeStorage: self.resize, SetStorage: self.attach}

    def op(self, position: int, op: Op) -> None:
        if not self.held or isinstance(op, ResizeStorage | SetStorage):
            return
        effects = self.effects[position]
        for value in dict.fromkeys((*effects.reads, *effects.writes)):
            roots = self.roots_at(value, position)
            held = self.held.get(roots[0]) if len(roots) == 1 else None
            if held is not None:
                self.touch(position, value, held)

    def touch(self, position: int, value: Value, held: Expr) -> None:
        """Sizes that are not known as numbers are left to run time, but for those of a storage that is empty."""
        _, start = self.facts.place(value)
        extent = self.facts.types(value.type).extent
        if not isinstance(held, Int) or self.facts.proofs.le(extent, 0):
            return
        end = extent + start
        if held.value == 0 or (isinstance(end, int) and end > held.value):
            self.report(
                "WIR026", f"%{value.name} ends at byte {shown(end)}, its storage at {held.value}", position
            )

    def resize(self, position: int, op: ResizeStorage) -> None:
        roots = self.roots_at(op.target, position)
        for root in roots:
            self.held.pop(root, None)
        if len(roots) == 1:
            self.held[roots[0]] = op.nbytes

    def attach(self, position: int, op: SetStorage) -> None:
        for root in self.roots_at(op.target, position):
            self.held.pop(root, None)

"""Nothing touches elements that a resized storage no longer holds.

A storage of the caller may be given up for a while (`resize_storage %x, 0`) and filled again. In between it
has no memory, and a kernel would write where anything may be.
"""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.expr import Expr
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers, sizes_of
from wrapper_ir.verifier.obligations import Claim, Size, as_size
from wrapper_ir.verifier.proofs import shown


class Resized(Check):
    """WIR026."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.effects = facts.aliasing.effects
        self.roots_at = facts.aliasing.roots_at
        self.held: dict[ir.Value, Expr] = {}
        """Bytes in storages that were resized."""
        self.set: dict[ir.Value, tuple[Size, ir.Value]] = {}
        """Tensors that were set to others, and views made of them since: where the one that was set starts,
        and the other."""

        self.needed = not facts.classes.isdisjoint((ir.ResizeStorage, ir.SetStorage))

    def every(self) -> Handler | None:
        return self.op if self.needed else None

    def handlers(self) -> Handlers:
        if not self.needed:
            return {}
        return {ir.ResizeStorage: self.resize, ir.SetStorage: self.attach, ir.View: self.view}

    def op(self, position: int, op: ir.Op) -> None:
        if not (self.held or self.set) or isinstance(op, ir.ResizeStorage | ir.SetStorage):
            return
        effects = self.effects[position]
        for value in dict.fromkeys((*effects.reads, *effects.writes)):
            roots = self.roots_at(value, position)
            held = self.held.get(roots[0]) if len(roots) == 1 else None
            _, start = self.facts.place(value)
            if held is not None:
                self.touch(position, value, start, as_size(held))
            if value in self.set:
                first, source = self.set[value]
                self.touch(position, value, start - first, self.facts.types(source.type).extent)

    def touch(self, position: int, value: ir.Value, start: Size, held: Size) -> None:
        """What is used of a resized storage is still there."""
        end = start + self.facts.types(value.type).extent
        self.facts.require(
            Claim((((end, held),),), sizes_of(value)),
            "WIR026",
            lambda: f"%{value.name} ends at byte {shown(end)}, its storage at {shown(held)}",
            position,
        )

    def view(self, position: int, op: ir.View) -> None:
        if op.source in self.set:
            self.set[op.result] = self.set[op.source]

    def resize(self, position: int, op: ir.ResizeStorage) -> None:
        roots = self.roots_at(op.target, position)
        for root in roots:
            self.held.pop(root, None)
        if len(roots) == 1:
            self.held[roots[0]] = op.nbytes

    def attach(self, position: int, op: ir.SetStorage) -> None:
        """The target's elements are the source's from here on: as many bytes as these take."""
        for root in self.roots_at(op.target, position):
            self.held.pop(root, None)
        if op.target.type == op.source.type:
            self.set.pop(op.target, None)
        else:
            self.set[op.target] = (self.facts.place(op.target)[1], op.source)

"""Checks that no op accesses elements that are outside of a resized storage.

A program may release a storage of the caller (`resize_storage %x, 0`) and fill it again later. In between it
has no memory, so a kernel would access memory of others.
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
        self.nbytes: dict[ir.Value, Expr] = {}
        """The bytes of resized storages."""
        self.set: dict[ir.Value, tuple[Size, ir.Value]] = {}
        """Targets of `set_storage`, and views created of them since: the start of the target, and the
        source."""
        self.needed = not facts.classes.isdisjoint((ir.ResizeStorage, ir.SetStorage))

    def every(self) -> Handler | None:
        return self.op if self.needed else None

    def handlers(self) -> Handlers:
        if not self.needed:
            return {}
        return {ir.ResizeStorage: self.resize, ir.SetStorage: self.attach, ir.View: self.view}

    def op(self, position: int, op: ir.Op) -> None:
        if not (self.nbytes or self.set) or isinstance(op, ir.ResizeStorage | ir.SetStorage):
            return
        effects = self.effects[position]
        for value in dict.fromkeys((*effects.reads, *effects.writes)):
            roots = self.roots_at(value, position)
            nbytes = self.nbytes.get(roots[0]) if len(roots) == 1 else None
            _, start = self.facts.place(value)
            if nbytes is not None:
                self.access(position, value, start, as_size(nbytes))
            if value in self.set:
                first, source = self.set[value]
                self.access(position, value, start - first, self.facts.types(source.type).extent)

    def access(self, position: int, value: ir.Value, start: Size, nbytes: Size) -> None:
        """Requires that a tensor is inside of its storage."""
        end = start + self.facts.types(value.type).extent
        self.facts.require(
            Claim((((end, nbytes),),), sizes_of(value)),
            "WIR026",
            lambda: f"%{value.name} ends at byte {shown(end)}, its storage at {shown(nbytes)}",
            position,
        )

    def view(self, position: int, op: ir.View) -> None:
        if op.source in self.set:
            self.set[op.result] = self.set[op.source]

    def resize(self, position: int, op: ir.ResizeStorage) -> None:
        roots = self.roots_at(op.target, position)
        for root in roots:
            self.nbytes.pop(root, None)
        if len(roots) == 1:
            self.nbytes[roots[0]] = op.nbytes

    def attach(self, position: int, op: ir.SetStorage) -> None:
        """Records that the target now has the bytes of the source's elements."""
        for root in self.roots_at(op.target, position):
            self.nbytes.pop(root, None)
        if op.target.type == op.source.type:
            self.set.pop(op.target, None)
        else:
            self.set[op.target] = (self.facts.place(op.target)[1], op.source)

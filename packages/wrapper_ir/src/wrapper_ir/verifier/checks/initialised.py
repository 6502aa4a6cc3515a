"""Reads see a write, and immutable constants see none.

A storage or slot that an op made without zeroing, or a storage parameter, holds nothing until an op writes
it. A write counts for the bytes of the tensor that it goes through, where these are known; a read is fine
when any byte of it has been written, or when the tensor has no elements, which a run checks where only a run
can tell.
"""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers, sizes_of
from wrapper_ir.verifier.obligations import Claim

_Window = tuple[int, int]
_RANDOM = ir.EffectClass.RANDOM
_CALLS = (ir.Switch, ir.WhileLoop, ir.CallSubgraph, ir.CallExtern, ir.CollectiveStart)


class Initialised(Check):
    """WIR080, WIR081."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.effects = facts.aliasing.effects
        self.roots = facts.aliasing.roots
        self.empty: dict[ir.Value, list[_Window]] = {}
        """Storages not wholly written: the parts that are."""
        for param in facts.function.params:
            if ir.is_storage(param.value):
                self.empty[param.value] = []  # it is lent for its room, not for what is in it
        self.shared: dict[str, tuple[int, ...]] = {}
        """By kernel, what `shared_places` found."""
        self.immutable = {c.value for c in facts.analyses.program.constants if not c.mutable}

    def every(self) -> Handler:
        return self.op

    def handlers(self) -> Handlers:
        return {ir.AllocStorage: self.begin, ir.Slot: self.begin}

    def begin(self, position: int, op: ir.Allocation) -> None:
        if op.zero is ir.ZeroMode.NONE:
            self.empty[op.result] = []

    def op(self, position: int, op: ir.Op) -> None:
        effects = self.effects[position]
        if self.empty and effects.reads and _RANDOM not in effects.classes:
            partners = self.partners(op) if isinstance(op, ir.Launch) else ()
            if isinstance(op, _CALLS):
                # A callee may read what it has itself written: a loop that fills a buffer row by row. What an
                # operator reads of an argument that it writes, its schema does not say.
                partners = effects.writes
            for value in effects.reads:
                if value not in partners:
                    self.read(position, value)
        for value in effects.writes:
            for root in self.roots.get(value, NO_ROOTS):
                if root in self.immutable:
                    self.report("WIR081", f"%{value.name} may be constant %{root.name}", position)
                elif root in self.empty:
                    self.write(value, root)

    def partners(self, op: ir.Launch) -> tuple[ir.Value, ...]:
        """Arguments read through a parameter that may overlap one that the kernel writes: such a kernel reads
        what it has itself written (a concatenation whose parts it has just filled)."""
        places = self.shared.get(op.kernel)
        if places is None:
            places = self.shared[op.kernel] = self.shared_places(op.kernel)
        return tuple(a for i in places if i < len(op.args) and isinstance(a := op.args[i], ir.Value))

    def shared_places(self, name: str) -> tuple[int, ...]:
        """The positions of such parameters."""
        kernel = self.facts.analyses.kernels.get(name)
        params = () if kernel is None else kernel.params
        written = {p.name for p in params if p.access.writes}
        return tuple(
            i
            for i, p in enumerate(params)
            if p.access is ir.Access.READ and not written.isdisjoint(p.may_overlap)
        )

    def read(self, position: int, value: ir.Value) -> None:
        roots = self.roots.get(value, NO_ROOTS)
        if len(roots) != 1 or roots[0] not in self.empty:
            return
        root = roots[0]
        if self.facts.types(value.type).extent == 0:
            return
        window = self.window(value, root)
        parts = self.empty[root]
        if not parts or (window and not any(lo < window[1] and window[0] < hi for lo, hi in parts)):
            # A compiler leaves out the kernel that would write a tensor without elements.
            is_fine = self.facts.require(
                Claim(tuple(((size, 0),) for size in sizes_of(value))),
                "WIR080",
                lambda: f"%{value.name} is read, but nothing has written it",
                position,
            )
            if not is_fine:  # once for each storage
                del self.empty[root]

    def write(self, value: ir.Value, root: ir.Value) -> None:
        window = self.window(value, root)
        if window is None or (window[0] == 0 and window[1] == self.facts.capacity(root)):
            del self.empty[root]
        else:
            self.empty[root].append(window)

    def window(self, value: ir.Value, root: ir.Value) -> _Window | None:
        """Bytes of the root that the tensor spans; None where they are not known as numbers."""
        base, start = self.facts.place(value)
        if base is not root and base != root:
            return None
        size = self.facts.types(value.type).extent
        return (start, start + size) if isinstance(start, int) and isinstance(size, int) else None

"""Checks that memory is written before it is read, and that immutable constants are never written.

Storages and slots that are not zeroed, and storage parameters, are uninitialized until an op writes them. A
write initializes the bytes of its tensor, if these are known. A read is valid if any byte of its tensor is
initialized, or if the tensor is empty, which may become a check at run time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers, sizes_of
from wrapper_ir.verifier.obligations import Claim, as_numbers

_Window = tuple[int, int]
_BEGIN, _END = itemgetter(0), itemgetter(1)
_RANDOM = ir.EffectClass.RANDOM


class Initialised(Check):
    """WIR080, WIR081."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.effects = facts.aliasing.effects
        self.roots = facts.aliasing.roots
        self.empty: dict[ir.Value, list[_Window]] = {}
        """The initialized parts of storages that are not wholly initialized: disjoint, and in order."""
        for param in facts.function.params:
            if ir.is_storage(param.value):
                self.empty[param.value] = []  # the caller lends memory, not content
        self.shared: dict[str, tuple[int, ...]] = {}
        """The results of `shared_places` by kernel."""
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
            partners = self.partners(op, effects)
            for value in effects.reads:
                if value not in partners:
                    self.read(position, value)
        for value in effects.writes:
            for root in self.roots.get(value, NO_ROOTS):
                if root in self.immutable:
                    self.report("WIR081", f"%{value.name} may be constant %{root.name}", position)
                elif root in self.empty:
                    self.write(value, root)

    def partners(self, op: ir.Op, effects: ir.Effects) -> tuple[ir.Value, ...]:
        """Arguments that the op may read because it may have written them itself.

        A loop may fill a buffer row by row. A schema does not tell whether an operator reads an argument that
        it writes."""
        match op:
            case ir.Launch():
                return self.overlapping(op)
            case ir.CallExtern() | ir.CollectiveStart() | ir.CallSubgraph() | ir.Switch() | ir.WhileLoop():
                return effects.writes
            case _:
                return ()

    def overlapping(self, op: ir.Launch) -> tuple[ir.Value, ...]:
        """Arguments of parameters that may overlap one that the kernel writes. Such a kernel reads what it
        wrote itself, for example a concatenation whose parts it just filled."""
        places = self.shared.get(op.kernel)
        if places is None:
            places = self.shared[op.kernel] = self.shared_places(op.kernel)
        return tuple(a for i in places if i < len(op.args) and isinstance(a := op.args[i], ir.Value))

    def shared_places(self, name: str) -> tuple[int, ...]:
        """The positions of such parameters."""
        kernel = self.facts.analyses.kernels.get(name)
        params = () if kernel is None else kernel.params
        outputs = {p.name for p in params if p.access.writes}
        return tuple(
            i
            for i, p in enumerate(params)
            if p.access is ir.Access.READ and not outputs.isdisjoint(p.may_overlap)
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
        if not parts or (window and not _overlap(parts, window)):
            # a compiler omits the kernel that would write an empty tensor
            is_valid = self.facts.require(
                Claim(tuple(((size, 0),) for size in sizes_of(value))),
                "WIR080",
                lambda: f"%{value.name} is read, but nothing has written it",
                position,
            )
            if not is_valid:  # report each storage once
                del self.empty[root]

    def write(self, value: ir.Value, root: ir.Value) -> None:
        window = self.window(value, root)
        if window is None or (window[0] == 0 and window[1] == self.facts.capacity(root)):
            del self.empty[root]
        else:
            _add(self.empty[root], window)

    def window(self, value: ir.Value, root: ir.Value) -> _Window | None:
        """Bytes of the root that the tensor spans; None if they are not constant."""
        base, start = self.facts.place(value)
        if base is not root and base != root:
            return None
        numbers = as_numbers(start, self.facts.types(value.type).extent)
        return None if numbers is None else (numbers[0], sum(numbers))


def _add(parts: list[_Window], window: _Window) -> None:
    """Adds a window to disjoint parts; parts that touch it are joined with it."""
    first = bisect_left(parts, window[0], key=_END)
    last = bisect_right(parts, window[1], key=_BEGIN)
    joined = [window, *parts[first:last]]
    parts[first:last] = [(min(map(_BEGIN, joined)), max(map(_END, joined)))]


def _overlap(parts: list[_Window], window: _Window) -> bool:
    first = bisect_right(parts, window[0], key=_END)
    return first < len(parts) and parts[first][0] < window[1]

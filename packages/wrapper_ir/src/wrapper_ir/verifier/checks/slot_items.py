"""Checks that elements of tensors in slots start at multiples of their size.

`layout` checks a view within its storage. A slot may start anywhere in its pool, and a storage parameter may
be a slot of the caller, so this check adds up offsets to the allocated storage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import slot_places
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.obligations import Size, as_size
from wrapper_ir.verifier.proofs import shown

_Needs = Mapping[str, tuple[int, ...]]


def _needs(analyses: Analyses) -> _Needs:
    """Maps function and parameter index to the size of the largest elements in it, including callees; 1 if
    none."""
    needs: dict[str, tuple[int, ...]] = {}

    def of(name: str) -> tuple[int, ...]:
        if name not in needs:
            needs[name] = _of_params(analyses.functions[name], of)
        return needs[name]

    for function in analyses.program.functions:
        of(function.name)
    return needs


def _of_params(function: ir.Function, of_callee: Callable[[str], tuple[int, ...]]) -> tuple[int, ...]:
    numbers: dict[ir.Value, int] = {
        p.value: i for i, p in enumerate(function.params) if ir.is_storage(p.value)
    }
    needs = [1] * len(function.params)

    def need(value: ir.Arg, itemsize: int) -> None:
        if isinstance(value, ir.Value) and value in numbers:
            needs[numbers[value]] = max(needs[numbers[value]], itemsize)

    for op in function.body if numbers else ():
        match op:
            case ir.View():
                need(op.source, op.result.type.dtype.itemsize)
                _follow(numbers, op.source, op.result)
            case ir.Slot():
                _follow(numbers, op.pool, op.result)
            case ir.CallSubgraph() | ir.Switch() | ir.WhileLoop():
                for name in ir.callees(op):
                    for arg, itemsize in zip(ir.call_args(op), of_callee(name), strict=False):
                        need(arg, itemsize)
            case _:
                pass
    return tuple(needs)


def _follow(numbers: dict[ir.Value, int], source: ir.Value, result: ir.Value) -> None:
    if source in numbers:
        numbers[result] = numbers[source]


def _has_slots(analyses: Analyses) -> bool:
    return any(True for _ in analyses.program.ops_of(ir.Slot))


class SlotItems(Check):
    """WIR051."""

    name = "layout"

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.needed = facts.analyses.get(_has_slots)
        self.slots = facts.analyses.get_for(facts.function, slot_places)

    def handlers(self) -> Handlers:
        if not self.needed:
            return {}
        return {ir.View: self.view, **dict.fromkeys((ir.CallSubgraph, ir.Switch, ir.WhileLoop), self.call)}

    def view(self, position: int, op: ir.View) -> None:
        root, first = self.facts.place(op.result)
        self.items(position, root, first, op.result.type.dtype.itemsize, op.result)

    def call(self, position: int, op: ir.CallingOp) -> None:
        needs = self.facts.analyses.get(_needs)
        for name in ir.callees(op):
            for arg, itemsize in zip(ir.call_args(op), needs[name], strict=False):
                if isinstance(arg, ir.Value):
                    self.items(position, arg, 0, itemsize, arg)

    def items(self, position: int, root: ir.Value, first: Size, itemsize: int, what: ir.Value) -> None:
        """Requires that items at byte `first` of a slot start at multiples of their size."""
        place = self.slots.get(root)
        if place is None or not ir.is_storage(root) or not root.type.alignment % itemsize:
            return
        base, start = place
        at = as_size(start) + first
        self.facts.require_multiple(
            itemsize,
            at,
            "WIR051",
            lambda: f"%{what.name} starts at byte {shown(at)} of %{base.name}, items have {itemsize}",
            position,
        )

"""What operators do with symmetric memory: some take nothing else for an argument, some must not get it, and
some leave it in use by other processes when they are over for this one.

Any other operator or kernel reads and writes symmetric memory as it does other memory: kernels fill it and
read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import slot_places, tensor_places
from wrapper_ir.analysis.symmetric import lasting_arguments, named_arguments, named_arguments_as_given
from wrapper_ir.expr import Int
from wrapper_ir.operators.symmetric import gives_up
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.obligations import Size, as_size

_ORDINARY = ("aten::", "prims::")
"""Namespaces whose operators make their results in ordinary memory; a library's own may take them from
anywhere."""


class _Rule(NamedTuple):
    """What an operator asks of its arguments, by their names."""

    info: ir.ExternInfo
    needed: frozenset[str]
    refused: frozenset[str]


class _Rules(NamedTuple):
    """Operators by name, and whether memory pools may give what a program allocates symmetric memory."""

    by_target: Mapping[str, _Rule]
    pools: bool


def _rules(analyses: Analyses) -> _Rules:
    found: dict[str, _Rule] = {}
    for name, info in analyses.extern_info.items():
        needed, refused = frozenset(info.extern.symmetric), frozenset(gives_up(info.schema))
        if needed or refused:
            found[name] = _Rule(info, needed, refused)
    bodies = (f.body for f in analyses.program.functions)
    return _Rules(found, any(isinstance(op, ir.EnterMemoryPool) for body in bodies for op in body))


class SymmetricArguments(Check):
    """WIR205, WIR208, WIR276 to WIR278."""

    name = "symmetric"

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.rules = facts.analyses.get(_rules)
        self.lasting: list[tuple[ir.Type, Size, Size, str]] = []
        """What other processes may still use: in an allocation of which type, from which byte to which, and
        by which operator."""

    def handlers(self) -> Handlers:
        handlers: Handlers = {ir.ResizeStorage: self.resize}
        if self.rules.by_target:
            handlers = {**handlers, ir.CallExtern: self.call, ir.CollectiveStart: self.call}
            handlers = {**handlers, ir.AllocStorage: self.begin, ir.Slot: self.begin}
        return handlers

    def call(self, position: int, op: ir.OperatorCall) -> None:
        rule = self.rules.by_target.get(op.target)
        if rule is None:
            return
        for name, values in named_arguments(op, rule.info):
            for value in values:
                if name in rule.needed and self.is_elsewhere(value, position):
                    message = (
                        f"argument {name!r} of {op.target} must be symmetric memory, %{value.name} is not"
                    )
                    self.report("WIR205", message, position)
                if name in rule.needed:
                    self.shared(position, op, value, name)
                if name in rule.refused:
                    self.refuse(value, f"{op.target} gives up the storage of %{value.name}", position)

        for value in lasting_arguments(op, self.facts.analyses.extern_info):
            for root in self.facts.aliasing.roots_at(value, position):
                self.lasting.append((*self.place(root), op.target))

    def shared(self, position: int, op: ir.OperatorCall, value: ir.Value, name: str) -> None:
        """The processes that an operator works with are those that have the memory, and each finds its
        argument at one offset."""
        given = dict(named_arguments_as_given(op, self.rules.by_target[op.target].info)).get("group_name")
        for root in self.facts.aliasing.roots_at(value, position):
            if not ir.is_storage(root) or not root.type.is_symmetric:
                continue
            group = root.type.space.group
            if isinstance(given, str) and given != group:
                message = f"argument {name!r} of {op.target} lies in memory of group {group!r}, the operator is one of group {given!r}"
                self.report("WIR277", message, position)
            places = self.facts.analyses.get_for(self.facts.function, tensor_places)
            start = places.get(value, (root, Int(0)))[1]
            slots = self.facts.analyses.get_for(self.facts.function, slot_places)
            offset = slots.get(root, (root, Int(0)))[1] + start
            if not isinstance(offset, Int):
                message = f"argument {name!r} of {op.target} lies {offset} bytes after the begin of symmetric memory, which may differ between processes"
                self.report("WIR278", message, position)

    def place(self, storage: ir.Value) -> tuple[ir.Type, Size, Size]:
        """The type of the allocation that a storage lies in, its first byte there, and the one after its
        last."""
        type = storage.type
        if not isinstance(type, ir.StorageType):
            return type, 0, 0
        slots = self.facts.analyses.get_for(self.facts.function, slot_places)
        base, start = slots.get(storage, (storage, Int(0)))
        return base.type, as_size(start), as_size(start + type.nbytes)

    def begin(self, position: int, op: ir.Allocation) -> None:
        """Bytes of symmetric memory begin to hold something else: an id is one piece of memory."""
        for type, first, last, target in self.lasting if op.result.type.is_symmetric else ():
            _, start, end = self.place(op.result)
            numbers = [n for n in (first, last, start, end) if isinstance(n, int)]
            is_apart = len(numbers) == 4 and (numbers[1] <= numbers[2] or numbers[3] <= numbers[0])
            if isinstance(type, ir.StorageType) and type.space == op.result.type.space and not is_apart:
                message = f"%{op.result.name} begins where {target} may be at work for another process"
                self.report("WIR276", message, position)
                return

    def resize(self, position: int, op: ir.ResizeStorage) -> None:
        self.refuse(op.target, f"the storage of %{op.target.name} is resized", position)

    def refuse(self, value: ir.Value, message: str, position: int) -> None:
        for root in self.facts.aliasing.roots_at(value, position):
            if ir.is_storage(root) and root.type.is_group_memory:
                self.report("WIR208", f"{message}, which is {root.type.space.kind.value} memory", position)
                return

    def is_root_symmetric(self, root: ir.Value) -> bool:
        return ir.is_storage(root) and root.type.is_symmetric

    def is_elsewhere(self, value: ir.Value, position: int) -> bool:
        """Whether a tensor surely lives in ordinary memory, whatever storage it has."""
        roots = self.facts.aliasing.roots_at(value, position)
        return bool(roots) and all(self.is_ordinary(root) for root in roots)

    def is_ordinary(self, root: ir.Value) -> bool:
        """Whether a storage surely is ordinary memory: what the program allocates, or an operator that is
        known, outside of memory pools, whose memory is of the kind that the caller made them with. Inputs,
        constants and other results may live anywhere."""
        position = self.facts.positions.get(root.name, -1)
        if self.rules.pools or position < 0 or self.is_root_symmetric(root):
            return False
        made = self.facts.function.body[position]
        if isinstance(made, ir.CallExtern):
            return made.target.startswith(_ORDINARY)
        if isinstance(made, ir.Slot):
            hosts = self.facts.aliasing.chain(root)[1:]
            return bool(hosts) and self.is_ordinary(hosts[-1])
        return isinstance(made, ir.AllocStorage)

"""Checks operators against symmetric memory: some require it for an argument, some must not access it, and
some leave it in use by other processes after they complete in this one.

All other operators and kernels access symmetric memory like any other memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeGuard

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import slot_places, tensor_places
from wrapper_ir.analysis.symmetric import lasting_arguments, named_arguments, named_arguments_as_given
from wrapper_ir.expr import Int
from wrapper_ir.operators.symmetric import gives_up
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.obligations import Size, as_numbers, as_size

_ORDINARY = ("aten::", "prims::")
"""Namespaces whose operators allocate results in ordinary memory; operators of a library may return any
memory."""


class _Rule(NamedTuple):
    """The names of an operator's arguments that must be symmetric memory, and of those that must not."""

    info: ir.ExternInfo
    needed: frozenset[str]
    refused: frozenset[str]


class _Rules(NamedTuple):
    """The rules of operators by name, and whether allocations of the program may come from memory pools."""

    by_target: Mapping[str, _Rule]
    pools: bool


def _rules(analyses: Analyses) -> _Rules:
    rules: dict[str, _Rule] = {}
    for name, info in analyses.extern_info.items():
        required, refused = frozenset(info.extern.symmetric), frozenset(gives_up(info.schema))
        if required or refused:
            rules[name] = _Rule(info, required, refused)
    return _Rules(rules, any(True for _ in analyses.program.ops_of(ir.EnterMemoryPool)))


class SymmetricArguments(Check):
    """WIR205, WIR208, WIR276 to WIR278."""

    name = "symmetric"

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.rules = facts.analyses.get(_rules)
        self.lasting: list[tuple[ir.Type, Size, Size, str]] = []
        """Memory that other processes may still access: the type of the allocation, first and last byte,
        operator."""

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
        """Requires that the memory belongs to the operator's group, and is at the same offset in all
        processes."""
        group_name = dict(named_arguments_as_given(op, self.rules.by_target[op.target].info)).get(
            "group_name"
        )
        argument = f"argument {name!r} of {op.target}"
        for root in self.facts.aliasing.roots_at(value, position):
            if not self.is_root_symmetric(root):
                continue
            group = root.type.space.group
            if isinstance(group_name, str) and group_name != group:
                message = (
                    f"{argument} is in memory of group {group!r}, but the operator uses group {group_name!r}"
                )
                self.report("WIR277", message, position)
            places = self.facts.analyses.get_for(self.facts.function, tensor_places)
            start = places.get(value, (root, Int(0)))[1]
            slots = self.facts.analyses.get_for(self.facts.function, slot_places)
            offset = slots.get(root, (root, Int(0)))[1] + start
            if offset.constant is None:
                message = (
                    f"{argument} is {offset} bytes after the start of symmetric memory, "
                    "which may differ between processes"
                )
                self.report("WIR278", message, position)

    def place(self, storage: ir.Value) -> tuple[ir.Type, Size, Size]:
        """The type of the allocation that contains a storage, and its first byte and end (exclusive) in
        it."""
        if not ir.is_storage(storage):
            return storage.type, 0, 0
        slots = self.facts.analyses.get_for(self.facts.function, slot_places)
        base, start = slots.get(storage, (storage, Int(0)))
        return base.type, as_size(start), as_size(start + storage.type.nbytes)

    def begin(self, position: int, op: ir.Allocation) -> None:
        """Requires that newly allocated symmetric memory is not in use by other processes."""
        for type, first, last, target in self.lasting if op.result.type.is_symmetric else ():
            _, start, end = self.place(op.result)
            numbers = as_numbers(first, last, start, end)
            is_apart = numbers is not None and (numbers[1] <= numbers[2] or numbers[3] <= numbers[0])
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

    def is_root_symmetric(self, root: ir.Value) -> TypeGuard[ir.Value[ir.StorageType]]:
        return ir.is_storage(root) and root.type.is_symmetric

    def is_elsewhere(self, value: ir.Value, position: int) -> bool:
        """Returns whether a tensor is known to be in ordinary memory."""
        roots = self.facts.aliasing.roots_at(value, position)
        return bool(roots) and all(self.is_ordinary(root) for root in roots)

    def is_ordinary(self, root: ir.Value) -> bool:
        """Returns whether a storage is known to be ordinary memory: the program or a known operator allocates
        it, outside of memory pools, which may have any kind of memory. Inputs, constants and other results
        may be in any memory."""
        position = self.facts.positions.get(root.name, -1)
        if self.rules.pools or position < 0 or self.is_root_symmetric(root):
            return False
        match self.facts.function.body[position]:
            case ir.CallExtern(target=target):
                return target.startswith(_ORDINARY)
            case ir.Slot():
                hosts = self.facts.aliasing.chain(root)[1:]
                return bool(hosts) and self.is_ordinary(hosts[-1])
            case ir.AllocStorage():
                return True
            case _:
                return False

"""Checks memory of process groups, symmetric or registered.

An allocation id is one block of memory for the lifetime of the group's processes. So at most one live storage
has it, and it stays inside the program.
"""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers


def _allocated(analyses: Analyses) -> Mapping[str, frozenset[ir.MemorySpace]]:
    """The ids that each function allocates, including its callees."""
    spaces: dict[str, frozenset[ir.MemorySpace]] = {}

    def of(name: str) -> frozenset[ir.MemorySpace]:
        if name not in spaces:
            function = analyses.functions[name]
            types = [op.result.type for op in function.ops_of(ir.AllocStorage)]
            own = frozenset(type.space for type in types if type.is_group_memory)
            callees = (callee for _, op in ir.calling_ops(function.body) for callee in ir.callees(op))
            spaces[name] = own.union(*map(of, callees))
        return spaces[name]

    for function in analyses.program.functions:
        of(function.name)
    return spaces


class Symmetric(Check):
    """WIR203, WIR204."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.allocated = facts.analyses.get(_allocated)
        self.roots_at = facts.aliasing.roots_at
        self.live: dict[ir.MemorySpace, ir.Value] = {}
        for param in facts.function.params:
            if ir.is_storage(param.value) and param.value.type.is_group_memory:
                # several slots of one memory may be arguments of one call
                self.live.setdefault(param.value.type.space, param.value)

    def handlers(self) -> Handlers:
        if not self.live and not self.allocated[self.facts.function.name]:
            return {}
        return {
            ir.AllocStorage: self.alloc,
            ir.Free: self.free,
            ir.CallSubgraph: self.call,
            ir.Switch: self.call,
            ir.WhileLoop: self.call,
            ir.SetStorage: self.attached,
            ir.Return: self.ret,
        }

    def alloc(self, position: int, op: ir.AllocStorage) -> None:
        space = op.result.type.space
        if op.result.type.is_group_memory and self.live.setdefault(space, op.result) is not op.result:
            self.taken(position, space, f"%{op.result.name}")

    def taken(self, position: int, space: ir.MemorySpace, by: str) -> None:
        id = f"id {space.alloc_id} of group {space.group!r}"
        self.report("WIR203", f"{by} takes {id}, which %{self.live[space].name} has", position)

    def free(self, position: int, op: ir.Free) -> None:
        self.end(position, op.storage)

    def end(self, position: int, value: ir.Value) -> None:
        for root in self.roots_at(value, position):
            if ir.is_storage(root) and self.live.get(root.type.space) is root:
                del self.live[root.type.space]

    def call(self, position: int, op: ir.CallingOp) -> None:
        """Requires that callees allocate no id that is live here. A moved storage ends here."""
        for value in self.facts.aliasing.effects[position].moves:
            self.end(position, value)
        for name in ir.callees(op):
            for space in self.live.keys() & self.allocated[name]:
                self.taken(position, space, f"@{name}")

    def attached(self, position: int, op: ir.SetStorage) -> None:
        self.inside(position, op.source)

    def ret(self, position: int, op: ir.Return) -> None:
        for value in op.values:
            if isinstance(value, ir.Value):
                self.inside(position, value)

    def inside(self, position: int, value: ir.Value) -> None:
        for root in self.roots_at(value, position):
            if ir.is_storage(root) and root.type.is_group_memory:
                message = f"%{value.name} is in {root.type.space.kind.value} memory, and leaves the function"
                self.report("WIR204", message, position)

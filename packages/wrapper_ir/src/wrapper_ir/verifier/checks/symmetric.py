"""Memory of process groups, symmetric or registered: an allocation id is one piece of memory for as long as
the processes of its group live, so one storage at a time has it, and it stays inside the program."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers


def _allocated(analyses: Analyses) -> Mapping[str, frozenset[ir.MemorySpace]]:
    """The ids that each function allocates, itself or in those that it calls."""
    found: dict[str, frozenset[ir.MemorySpace]] = {}

    def of(name: str) -> frozenset[ir.MemorySpace]:
        if name not in found:
            body = analyses.functions[name].body
            types = [op.result.type for op in body if isinstance(op, ir.AllocStorage)]
            own = frozenset(type.space for type in types if type.is_group_memory)
            found[name] = own.union(*(of(f) for _, op in ir.calling_ops(body) for f in ir.callees(op)))
        return found[name]

    for function in analyses.program.functions:
        of(function.name)
    return found


class Symmetric(Check):
    """WIR203, WIR204."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.allocated = facts.analyses.get(_allocated)
        self.roots_at = facts.aliasing.roots_at
        self.live: dict[ir.MemorySpace, ir.Value] = {}
        for param in facts.function.params:
            type = param.value.type
            if isinstance(type, ir.StorageType) and type.is_group_memory:
                self.live.setdefault(type.space, param.value)  # slots of one memory may be lent together

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
        message = (
            f"{by} takes id {space.alloc_id} of group {space.group!r}, which %{self.live[space].name} has"
        )
        self.report("WIR203", message, position)

    def free(self, position: int, op: ir.Free) -> None:
        self.end(position, op.storage)

    def end(self, position: int, value: ir.Value) -> None:
        for root in self.roots_at(value, position):
            if ir.is_storage(root) and self.live.get(root.type.space) is root:
                del self.live[root.type.space]

    def call(self, position: int, op: ir.CallingOp) -> None:
        """What is live here is live in a callee, unless it is moved there."""
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
                self.report(
                    "WIR204",
                    f"%{value.name} lies in {root.type.space.kind.value} memory, and leaves the function",
                    position,
                )

"""Checks that nothing is used after its end, and that exactly the owned storages end, each once."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.expr import Int
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers

_VERBS = {"WIR060": "freed", "WIR062": "moved"}


class Lifetimes(Check):
    """WIR060 to WIR070, WIR018, WIR229."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.roots = facts.aliasing.roots
        self.owned = facts.aliasing.owned
        self.uncertain = facts.aliasing.uncertain
        self.escaped = facts.aliasing.escaped
        self.hosts = facts.aliasing.hosts
        self.slots: dict[ir.Value, dict[ir.Value, None]] = {}
        """The slots of each pool that have not ended."""
        self.lent = {p.value for p in facts.function.params if ir.is_storage(p.value)}
        constants = facts.analyses.program.constants
        self.constants = {c.value for c in constants}
        self.fixed = {
            c.value for c in constants if facts.is_main and not c.mutable and not _is_empty(c.value)
        }
        """Constants that the function must not return, because a caller may write its results."""
        self.dead: dict[ir.Value, tuple[str, int]] = {}
        """Roots that ended: the code for later uses, and the position of the end."""
        self.dropped: dict[str, int] = {}
        self.reused: dict[ir.Value, int] = {}
        """The position of each root's last reuse; tensors defined before it are dead."""
        self.gone: set[ir.Value] = set()
        """The roots in `dead` and `reused`."""
        self.undropped: dict[str, int] = {}
        """Positions of results to drop, by name."""
        self.returned: set[ir.Value] = set()
        """Roots that the return moves to the caller."""

    def every(self) -> Handler:
        return self.op

    def handlers(self) -> Handlers:
        defining = (ir.CallExtern, ir.CollectiveStart, ir.Unpack, ir.RecordEvent, ir.EnsureAligned)
        return {
            ir.Slot: self.slot,
            ir.Free: self.free,
            ir.Drop: self.drop,
            ir.View: self.view,
            ir.Return: self.ret,
            ir.Switch: self.call,
            ir.CallSubgraph: self.call,
            **dict.fromkeys(defining, self.results),
        }

    def op(self, position: int, op: ir.Op) -> None:
        if op.__class__ is ir.Free:
            return
        dropped, roots, ends = self.dropped, self.roots, self.gone
        for value in self.facts.scanned[position][0]:
            if value.name in dropped:
                self.report("WIR061", f"%{value.name} was dropped by op {dropped[value.name]}", position)
            for root in roots.get(value, NO_ROOTS):
                if root in ends:
                    self.after_end(position, value, root)

    def after_end(self, position: int, value: ir.Value, root: ir.Value) -> None:
        if root in self.dead:
            code, end = self.dead[root]
            self.report(code, f"%{value.name}: its storage was {_VERBS[code]} by op {end}", position)
            return
        end = self.reused[root]
        if ir.is_tensor(value) and self.facts.positions[value.name] < end:
            self.report("WIR062", f"%{value.name}: its storage was reused by op {end}", position)

    def slot(self, position: int, op: ir.Slot) -> None:
        self.slots.setdefault(op.pool, {})[op.result] = None

    def stays(self, value: ir.Value) -> bool:
        """Returns whether a value may be in a slot or a storage parameter, whose memory is the pool's or the
        caller's."""
        return any(r in self.hosts or r in self.lent for r in self.roots.get(value, NO_ROOTS))

    def free(self, position: int, op: ir.Free) -> None:
        value = op.storage
        if self.hosts:
            for slot in self.slots.get(value, ()):
                self.report("WIR018", f"%{slot.name} lies in %{value.name}, and has not ended", position)
            if value in self.hosts:
                self.slots[self.hosts[value]].pop(value, None)
        if value in self.dead:
            code, end = self.dead[value]
            if code == "WIR060":
                self.report("WIR063", f"%{value.name} was freed by op {end} already", position)
            else:
                self.report("WIR062", f"%{value.name} was moved by op {end}", position)
        elif value in self.owned and value not in self.uncertain and value not in self.escaped:
            self.end(value, "WIR060", position)
        elif value in self.constants or (self.roots.get(value) == (value,) and value not in self.owned):
            self.report("WIR064", f"%{value.name} is not the function's to free", position)
        else:
            self.report(
                "WIR065", f"%{value.name} is not a storage of its own; free or drop its root", position
            )

    def end(self, root: ir.Value, code: str, position: int) -> None:
        self.dead[root] = (code, position)
        self.gone.add(root)

    def drop(self, position: int, op: ir.Drop) -> None:
        value = op.value
        if value in self.constants:
            self.report("WIR064", f"%{value.name} is a constant, which never ends", position)
        elif value in self.lent:
            self.report("WIR064", f"%{value.name} is the caller's storage", position)
        elif ir.is_storage(value) and value not in self.escaped:
            self.report("WIR070", f"%{value.name} is a storage: free it", position)
        elif value in self.owned and value not in self.uncertain and value not in self.escaped:
            self.report("WIR070", f"%{value.name} has a storage of the function's own: free it", position)
            self.returned.add(value)  # reported already
        self.dropped[value.name] = position

    def view(self, position: int, op: ir.View) -> None:
        if op.mode is not ir.ViewMode.REUSE:
            return
        source = op.source
        root = self.own_root(source)
        if root is None:
            message = f"%{source.name} has no storage that is surely the function's own"
            self.report("WIR068", message, position)
            return
        self.reused[root] = position
        self.gone.add(root)
        if ir.is_storage(source):
            self.dropped[source.name] = position

    def own_root(self, value: ir.Value) -> ir.Value | None:
        """The root of `value` if the function certainly owns it, else None."""
        roots = self.roots.get(value, NO_ROOTS)
        if (
            len(roots) != 1
            or value in self.uncertain
            or roots[0] not in self.owned
            or roots[0] in self.escaped
        ):
            return None
        return roots[0]

    def call(self, position: int, op: ir.Switch | ir.CallSubgraph) -> None:
        moves = self.facts.aliasing.effects[position].moves
        for value in moves:
            if not ir.is_tensor(value):
                continue
            if self.stays(value):
                self.report("WIR069", f"%{value.name} is moved, but its bytes stay here", position)
                continue
            root = self.own_root(value)
            if root is None:
                message = f"%{value.name} cannot be moved: its storage is not surely the function's"
                self.report("WIR069", message, position)
                continue
            sharing = [v for v in self.facts.scanned[position][0] if root in self.roots.get(v, NO_ROOTS)]
            if len(sharing) > 1:
                names = ", ".join(f"%{v.name}" for v in sharing)
                self.report("WIR069", f"{names} share the storage that is moved", position)
            self.end(root, "WIR062", position)
        self.results(position, op)

    def ret(self, position: int, op: ir.Return) -> None:
        for value in self.facts.scanned[position][0]:
            if self.stays(value):
                self.report("WIR069", f"%{value.name} is returned, but its bytes stay here", position)
            if self.fixed:
                self.keep_fixed(position, value)
            self.returned.update(r for r in self.roots.get(value, NO_ROOTS) if r in self.owned)
            self.dropped.setdefault(value.name, position)

    def keep_fixed(self, position: int, value: ir.Value) -> None:
        """Reports constants whose memory a returned value shares or may share."""
        for root in self.roots.get(value, NO_ROOTS):
            if root in self.fixed:
                verb = "may be" if value in self.uncertain else "is"
                message = (
                    f"%{value.name} {verb} memory of the constant %{root.name}, which callers could write"
                )
                self.report("WIR229", message, position)

    def finish(self) -> None:
        for root, position in self.owned.items():
            if root in self.dead or root in self.returned:
                continue
            if root in self.escaped:
                if root.name not in self.dropped:
                    message = f"%{root.name} escapes by set_storage and is never dropped"
                    self.report("WIR067", message, position)
            elif root not in self.uncertain:
                self.report("WIR066", f"%{root.name} is neither freed, moved nor returned", position)
        for name, position in self.undropped.items():
            if name not in self.dropped:
                self.report("WIR067", f"%{name} is never dropped", position)

    def results(self, position: int, op: ir.Op) -> None:
        """Notes results that must be dropped because they may own memory, or contain such values."""
        for value in self.facts.results[position]:
            may_own = value in self.uncertain and value in self.roots.get(value, NO_ROOTS)
            if may_own or isinstance(value.type, ir.TupleType | ir.OpaqueType):
                self.undropped[value.name] = position


def _is_empty(value: ir.Value) -> bool:
    """Returns whether a tensor has no element that a caller could write."""
    return ir.is_tensor(value) and Int(0) in value.type.sizes

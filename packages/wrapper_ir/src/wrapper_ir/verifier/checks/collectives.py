"""Checks that each collective is waited for exactly once, and that until then only it accesses what it
writes, and nothing changes what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.symmetric import named_arguments_as_given
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers


@dataclass(frozen=True, slots=True)
class _Use:
    """A tensor that a collective in flight uses until `result` is waited for."""

    tensor: ir.Value
    result: str
    start: int
    written: bool


class Collectives(Check):
    """WIR037, WIR038, WIR046 to WIR049."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.roots = facts.aliasing.roots
        self.effects = facts.aliasing.effects
        self.started: dict[str, int] = {}
        """Positions of the collectives, by the names of their results."""
        self.in_flight: dict[str, tuple[_Use, ...]] = {}
        """The uses that end when a result is waited for, by its name."""
        self.by_root: dict[ir.Value, dict[_Use, None]] = {}
        self.needed = not facts.classes.isdisjoint((ir.CollectiveStart, ir.Wait))

    def every(self) -> Handler | None:
        return self.op if self.needed else None

    def handlers(self) -> Handlers:
        return {ir.CollectiveStart: self.start, ir.Wait: self.wait}

    def op(self, position: int, op: ir.Op) -> None:
        if not self.in_flight:
            return
        effects = self.effects[position]
        own, ends = -1, tuple[ir.Value, ...]()
        match op:
            case ir.Wait():  # ends the uses of its collective, including those of other results
                own = self.started.get(op.source.name, -1)
            case ir.Free():
                ends = effects.ends
            case _:
                pass
        for value in effects.reads:
            for use in self.sharing(value):
                if use.written and use.start != own:
                    message = f"%{value.name} is written by %{use.result}, in flight"
                    self.apart(position, value, use, "WIR046", message)
        changed = (*effects.writes, *effects.moves, *ends)
        for value in changed:
            for use in self.sharing(value):
                if use.start != own:
                    code, verb = ("WIR046", "written") if use.written else ("WIR049", "read")
                    message = f"%{value.name} is {verb} by %{use.result}, in flight"
                    self.apart(position, value, use, code, message)

    def sharing(self, value: ir.Value) -> Iterator[_Use]:
        """The uses of storages that `value` may be located in."""
        for root in self.roots.get(value, NO_ROOTS):
            yield from tuple(self.by_root.get(root, ()))

    def apart(self, position: int, value: ir.Value, use: _Use, code: str, message: str) -> None:
        if ir.is_storage(value):
            self.report(code, message, position)
        else:
            self.facts.require_apart(value, use.tensor, code, lambda: message, position)

    def start(self, position: int, op: ir.CollectiveStart) -> None:
        if not op.results:
            self.report("WIR038", f"{op.target} has no result", position)
        self.group(position, op)
        effects = self.effects[position]
        writes = {*effects.writes, *op.results}
        for result in op.results:
            tensors = [result, *(v for r, v in effects.holds if r is result)]
            uses = tuple(_Use(v, result.name, position, v in writes) for v in tensors)
            self.in_flight[result.name] = uses
            self.started[result.name] = position
            for use in uses:
                for root in self.roots.get(use.tensor, NO_ROOTS):
                    self.by_root.setdefault(root, {})[use] = None

    def group(self, position: int, op: ir.CollectiveStart) -> None:
        info = self.facts.analyses.extern_info.get(op.target)
        if info is None:
            return
        name = dict(named_arguments_as_given(op, info)).get("group_name", op.group)
        if name != op.group:
            self.report("WIR037", f"{op.target} is started in {op.group!r}, but is given {name!r}", position)

    def wait(self, position: int, op: ir.Wait) -> None:
        name = op.source.name
        if name not in self.in_flight:
            what = "was waited for already" if name in self.started else "is not a collective"
            self.report("WIR047", f"%{name} {what}", position)
        for use in self.in_flight.pop(name, ()):
            for root in self.roots.get(use.tensor, NO_ROOTS):
                self.by_root[root].pop(use, None)

    def finish(self) -> None:
        for name in self.in_flight:
            self.report("WIR048", f"%{name} is never waited for", self.started[name])

"""Determines the source lines of each op of a function: its own, or those of the op that it serves.

A frontend records source lines for computation. Other ops have none: they allocate, view, check, free and
return tensors. Such an op serves the first op that uses its result. Without a result, it serves the op that
produced its operand; for a parameter of the program, the first op that uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from wrapper_ir import ir
from wrapper_ir_tools.explain.model import Lead

_Name = str | ir.Value
"""A symbol's name, or a value."""


class SourceOf(NamedTuple):
    """The source lines of an op and their relation to it; `reason` describes it unless they are the op's
    own."""

    sources: tuple[str, ...]
    lead: Lead
    reason: str


_VERBS: Mapping[type[ir.OpBase], str] = {
    ir.AllocStorage: "memory of",
    ir.Slot: "memory of",
    ir.View: "a view of",
    ir.EnsureAligned: "alignment of",
    ir.Free: "end of",
    ir.Drop: "end of",
    ir.Return: "result",
    ir.AssertLayout: "check of",
    ir.AssertFinite: "check of",
    ir.AssertExpr: "check of",
    ir.Define: "value of",
    ir.DebugValue: "debug value",
    ir.Unpack: "parts of",
    ir.Wait: "wait for",
}


def sources_of_function(
    function: ir.Function, inside: Mapping[str, tuple[str, ...]], saved: Mapping[str, tuple[str, ...]]
) -> list[SourceOf]:
    """Returns one item for each op.

    `inside` has the source lines of callees; `saved` those of the tensors that a forward graph saved, by
    parameter.
    """
    return _Sources(function, inside, saved).found()


class _Sources:
    def __init__(
        self,
        function: ir.Function,
        inside: Mapping[str, tuple[str, ...]],
        saved: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.body = function.body
        self.inside, self.saved = inside, saved
        self.params = {p.value for p in function.params}
        self.makers = {name: at for at, op in enumerate(self.body) for name in _made(op)}
        self.first_users = self._first_users()
        self.known: list[SourceOf] = []

    def found(self) -> list[SourceOf]:
        """Resolves ops in order: operands before their users."""
        for at, op in enumerate(self.body):
            self.known.append(self._of(at, op))
        return self.known

    def _of(self, at: int, op: ir.OpBase) -> SourceOf:
        if op.prov.locations:
            return SourceOf(op.prov.locations, Lead.OWN, "")
        inside = tuple(dict.fromkeys(s for name in ir.callees(op) for s in self.inside.get(name, ())))
        if inside:
            return SourceOf(inside, Lead.VALUE, f"calls {', '.join(f'@{name}' for name in ir.callees(op))}")
        for name in (*_made(op), *_used(op)):
            served = self._through(at, name)
            if served is not None:
                return served._replace(reason=f"{_verb(op)} {_shown(name)}, {served.reason}")
        return SourceOf((), Lead.NONE, _why_none(op))

    def _through(self, at: int, name: _Name) -> SourceOf | None:
        """Resolves through a value or symbol: the op that defined it, otherwise the first that uses it."""
        maker = self.makers.get(name)
        if maker is not None and maker < at and self.known[maker].sources:
            origin = self.known[maker]
            return SourceOf(
                origin.sources, origin.lead if origin.lead is Lead.FORWARD else Lead.VALUE, f"from op {maker}"
            )
        if isinstance(name, ir.Value) and name in self.params and self.saved.get(name.name):
            return SourceOf(self.saved[name.name], Lead.FORWARD, "which the forward graph saved")
        user = self.first_users.get(name)
        if user is None:
            return None
        return SourceOf(self.body[user].prov.locations, Lead.VALUE, f"which op {user} is the first to use")

    def _first_users(self) -> dict[_Name, int]:
        """Returns the first op with recorded source lines that uses each value and symbol.

        It may use a value derived from it instead.
        """
        users: dict[_Name, int] = {}
        for at, op in enumerate(self.body):
            if not op.prov.locations:
                continue
            waiting = [*_used(op)]
            while waiting:
                name = waiting.pop()
                if name in users:
                    continue
                users[name] = at
                maker = self.makers.get(name)
                if maker is not None and not self.body[maker].prov.locations:
                    waiting += _used(self.body[maker])
        return users


def _made(op: ir.OpBase) -> tuple[_Name, ...]:
    return (op.symbol,) if isinstance(op, ir.Define) else ir.results(op)


def _used(op: ir.OpBase) -> Iterator[_Name]:
    yield from ir.operands(op)
    yield from dict.fromkeys(s for e in ir.exprs(op) for s in sorted(e.free_symbols))


def _shown(name: _Name) -> str:
    return f"%{name.name}" if isinstance(name, ir.Value) else name


def _verb(op: ir.OpBase) -> str:
    return _VERBS.get(type(op), "work on")


def _why_none(op: ir.OpBase) -> str:
    """The reason why the op has no source line."""
    names: Iterable[str] = dict.fromkeys(_shown(n) for n in (*_made(op), *_used(op)))
    names_text = ", ".join([*names][:3])
    match op:
        case ir.Return(values=()):
            return "returns nothing"
        case ir.AssertLayout() | ir.AssertFinite() | ir.AssertExpr():
            return f"check of {names_text}, which no op with a source line uses"
        case ir.Comment():
            return "a comment"
        case ir.Barrier() | ir.RecordEvent() | ir.WaitEvent() | ir.SyncEvent():
            return "order between streams"
        case ir.EnterProfile() | ir.EnterMemoryPool() | ir.ExitScope():
            return "a scope around other ops"
        case _:
            pass
    return (
        f"{_verb(op)} {names_text}: no source line was recorded"
        if names_text
        else "no source line was recorded"
    )

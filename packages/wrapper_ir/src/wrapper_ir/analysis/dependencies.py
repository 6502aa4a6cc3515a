"""Which ops of a function have to come before which others, so that it does the same in another order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses

_FENCES = ir.CollectiveStart | ir.Define | ir.Return | ir.Wait
_MOVABLE = frozenset({ir.EffectClass.RANDOM})
"""Effects whose ops keep their order, and let others pass."""


@dataclass(frozen=True, slots=True)
class Step:
    """Ops that stay together, by position: comments, an op that does something, and those that unpack its results. `after` are
    the steps that have to come before it, by index."""

    ops: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The result of the analysis for one function without `Free` and `Drop`.

    `steps` are in the order of the function. `names` has the positions of ops that only name memory (allocations, views), which
    may stand anywhere before the first use of what they define.
    """

    steps: tuple[Step, ...]
    names: dict[ir.Value, int]


def dependencies_of(function: ir.Function, analyses: Analyses) -> Dependencies:
    """Runs the analysis; linear in the number of ops and their operands.

    A step comes after those that make its operands, and after each that used the same storage before, where one of the two writes
    it, moves it, or ends a name of it. A check of a tensor counts as writing it, so that what comes after the check stays there. Such
    checks, and draws of random numbers, keep their order, and a check and a write that the caller sees keep theirs. Nothing crosses a
    definition of a symbol, an assertion about symbols, an event, a barrier, the begin or end of a collective or of a scope, a change
    of a storage, or an op with an effect that is not known.
    """
    found = _Dependencies(function, analyses)
    comments: list[int] = []
    for position, op in enumerate(function.body):
        if isinstance(op, ir.Comment):
            comments.append(position)
        elif is_name(op):
            found.names[ir.results(op)[0]] = position
        elif isinstance(op, ir.Unpack):
            found.join(position, op)
        else:
            found.add((*comments, position), op)
            comments = []
    return Dependencies(tuple(Step(*s) for s in zip(found.ops, found.after, strict=True)), found.names)


def is_name(op: ir.Op) -> bool:
    """Whether the op only names memory."""
    if isinstance(op, ir.AllocStorage):
        return not op.result.type.is_group_memory  # processes make those together
    return isinstance(op, ir.View) and op.mode is ir.ViewMode.ALIAS


class _Dependencies:
    def __init__(self, function: ir.Function, analyses: Analyses) -> None:
        self.body = function.body
        self.aliasing = analyses.aliasing(function)
        self.names: dict[ir.Value, int] = {}
        self.ops: list[tuple[int, ...]] = []
        self.after: list[tuple[int, ...]] = []
        self.made: dict[ir.Value, int] = {}
        """The step that makes each value."""
        self.changed: dict[ir.Value | ir.EffectClass, int] = {}
        """The step that last changed each storage, or had an effect of a class."""
        self.used: dict[ir.Value | ir.EffectClass, list[int]] = {}
        """The steps that used it since."""
        self.fence = -1
        """The last step that nothing crosses."""

    def join(self, position: int, op: ir.Unpack) -> None:
        """Puts the op with the one that makes what it unpacks."""
        step = self.made.get(op.source)
        if step is None:
            self.add((position,), op)
        else:
            self.ops[step] = (*self.ops[step], position)
            self.made[op.result] = step

    def add(self, ops: tuple[int, ...], op: ir.Op) -> None:
        """A step of its own."""
        step, effects = len(self.ops), self.aliasing.effects[ops[-1]]
        after = {self.fence, *(self.made[v] for v in self._bases(ir.operands(op)) if v in self.made)}
        for state, is_changed in self._states(op, effects).items():
            after.add(self.changed.get(state, -1))
            if is_changed:
                after.update(self.used.pop(state, ()))
                self.changed[state] = step
            else:
                self.used.setdefault(state, []).append(step)
        is_check = isinstance(op, ir.AssertFinite | ir.AssertLayout)
        if isinstance(op, _FENCES) or not (is_check or _MOVABLE.issuperset(effects.classes)):
            after.update(range(self.fence + 1, step))
            self.fence = step
        self.ops.append(ops)
        self.after.append(tuple(sorted(after - {-1})))
        self.made.update(dict.fromkeys(ir.results(op), step))

    def _states(self, op: ir.Op, effects: ir.Effects) -> dict[ir.Value | ir.EffectClass, bool]:
        """What the op uses, and whether it changes that: storages, and what stands for what is outside of memory."""
        is_check = isinstance(op, ir.AssertFinite | ir.AssertLayout)
        changed = {*effects.writes, *effects.moves, *(ir.operands(op) if is_check else ())}
        found: dict[ir.Value | ir.EffectClass, bool] = dict.fromkeys(effects.classes, True)
        for value in {*ir.operands(op), *effects.reads, *changed}:
            for root in self.aliasing.roots.get(value, NO_ROOTS):
                found[root] = found.get(root, False) or value in changed
                if value in changed and root not in self.aliasing.owned:
                    found.setdefault(
                        ir.EffectClass.CHECK, False
                    )  # the caller sees whether it came before a check that failed
        return found

    def _bases(self, values: Iterable[ir.Value]) -> Iterable[ir.Value]:
        """The values, and what the names among them name."""
        pending = list(values)
        for value in pending:
            yield value
            if value in self.names:
                pending += ir.operands(self.body[self.names[value]])

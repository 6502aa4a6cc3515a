"""Which ops of a function have to come before which others, so that it does the same in another order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.ir.ops import (
    AllocStorage,
    AssertFinite,
    AssertLayout,
    CollectiveStart,
    Comment,
    Define,
    EffectClass,
    Effects,
    Op,
    Return,
    Unpack,
    View,
    ViewMode,
    Wait,
)
from wrapper_ir.ir.program import Function
from wrapper_ir.ir.structure import operands, results
from wrapper_ir.ir.values import Value

_FENCES = CollectiveStart | Define | Return | Wait
_MOVABLE = frozenset({EffectClass.RANDOM})
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
    names: dict[Value, int]


def dependencies_of(function: Function, analyses: Analyses) -> Dependencies:
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
        if isinstance(op, Comment):
            comments.append(position)
        elif is_name(op):
            found.names[results(op)[0]] = position
        elif isinstance(op, Unpack):
            found.join(position, op)
        else:
            found.add((*comments, position), op)
            comments = []
    return Dependencies(tuple(Step(*s) for s in zip(found.ops, found.after, strict=True)), found.names)


def is_name(op: Op) -> bool:
    """Whether the op only names memory."""
    if isinstance(op, AllocStorage):
        return not op.result.type.is_group_memory  # processes make those together
    return isinstance(op, View) and op.mode is ViewMode.ALIAS


class _Dependencies:
    def __init__(self, function: Function, analyses: Analyses) -> None:
        self.body = function.body
        self.aliasing = analyses.aliasing(function)
        self.names: dict[Value, int] = {}
        self.ops: list[tuple[int, ...]] = []
        self.after: list[tuple[int, ...]] = []
        self.made: dict[Value, int] = {}
        """The step that makes each value."""
        self.changed: dict[Value | EffectClass, int] = {}
        """The step that last changed each storage, or had an effect of a class."""
        self.used: dict[Value | EffectClass, list[int]] = {}
        """The steps that used it since."""
        self.fence = -1
        """The last step that nothing crosses."""

    def join(self, position: int, op: Unpack) -> None:
        """Puts the op with the one that makes what it unpacks."""
        step = self.made.get(op.source)
        if step is None:
            self.add((position,), op)
        else:
            self.ops[step] = (*self.ops[step], position)
            self.made[op.result] = step

    def add(self, ops: tuple[int, ...], op: Op) -> None:
        """A step of its own."""
        step, effects = len(self.ops), self.aliasing.effects[ops[-1]]
        after = {self.fence, *(self.made[v] for v in self._bases(operands(op)) if v in self.made)}
        for state, is_changed in self._states(op, effects).items():
            after.add(self.changed.get(state, -1))
            if is_changed:
                after.update(self.used.pop(state, ()))
                self.changed[state] = step
            else:
                self.used.setdefault(state, []).append(step)
        is_check = isinstance(op, AssertFinite | AssertLayout)
        if isinstance(op, _FENCES) or not (is_check or _MOVABLE.issuperset(effects.classes)):
            after.update(range(self.fence + 1, step))
            self.fence = step
        self.ops.append(ops)
        self.after.append(tuple(sorted(after - {-1})))
        self.made.update(dict.fromkeys(results(op), step))

    def _states(self, op: Op, effects: Effects) -> dict[Value | EffectClass, bool]:
        """What the op uses, and whether it changes that: storages, and what stands for what is outside of memory."""
        is_check = isinstance(op, AssertFinite | AssertLayout)
        changed = {*effects.writes, *effects.moves, *(operands(op) if is_check else ())}
        found: dict[Value | EffectClass, bool] = dict.fromkeys(effects.classes, True)
        for value in {*operands(op), *effects.reads, *changed}:
            for root in self.aliasing.roots.get(value, NO_ROOTS):
                found[root] = found.get(root, False) or value in changed
                if value in changed and root not in self.aliasing.owned:
                    found.setdefault(
                        EffectClass.CHECK, False
                    )  # the caller sees whether it came before a check that failed
        return found

    def _bases(self, values: Iterable[Value]) -> Iterable[Value]:
        """The values, and what the names among them name."""
        pending = list(values)
        for value in pending:
            yield value
            if value in self.names:
                pending += operands(self.body[self.names[value]])

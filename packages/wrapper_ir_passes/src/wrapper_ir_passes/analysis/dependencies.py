"""Computes the dependencies between ops that any reordering of a function must preserve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses

_FENCES = ir.CollectiveStart | ir.Define | ir.Return | ir.Wait
_MOVABLE = frozenset({ir.EffectClass.RANDOM})
"""Effects whose ops keep their order among themselves, and that other ops may cross."""


@dataclass(frozen=True, slots=True)
class Step:
    """Ops that stay together, by position: comments, one other op, and the ops that unpack its results.

    `after` are the indices of the steps that must precede it.
    """

    ops: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The result of the analysis for one function without `Free` and `Drop`.

    `steps` are in the order of the function. `names` are the positions of ops that only name memory
    (allocations, views), which may be anywhere before the first use of their result.
    """

    steps: tuple[Step, ...]
    names: dict[ir.Value, int]


def dependencies_of(function: ir.Function, analyses: Analyses) -> Dependencies:
    """Runs the analysis; linear in the number of ops and their operands.

    A step depends on the definitions of its operands. It also depends on each earlier use of a storage that
    it uses, if one of the two writes or moves the storage, or ends one of its names. A check of a tensor
    counts as a write of it, so that later uses stay after the check. Checks of tensors and draws of random
    numbers keep their order, as do a check and a write that the caller can observe. Nothing crosses a
    definition of a symbol, an assertion about symbols, an event, a barrier, the begin or end of a collective
    or of a scope, a change of a storage, or an op with an unknown effect.
    """
    builder = _Dependencies(function, analyses)
    comments: list[int] = []
    for position, op in enumerate(function.body):
        match op:
            case ir.Comment():
                comments.append(position)
            case ir.Unpack():
                builder.join(position, op)
            case _ if is_name(op):
                builder.names[ir.results(op)[0]] = position
            case _:
                builder.add((*comments, position), op)
                comments = []
    return Dependencies(tuple(Step(*s) for s in zip(builder.ops, builder.after, strict=True)), builder.names)


def is_name(op: ir.Op) -> bool:
    """Returns whether the op only names memory."""
    match op:
        case ir.AllocStorage():
            return not op.result.type.is_group_memory  # all processes of the group allocate it together
        case ir.View():
            return op.mode is ir.ViewMode.ALIAS
        case _:
            return False


def _checks_tensors(op: ir.Op) -> bool:
    return isinstance(op, ir.AssertFinite | ir.AssertLayout)


class _Dependencies:
    def __init__(self, function: ir.Function, analyses: Analyses) -> None:
        self.body = function.body
        self.aliasing = analyses.aliasing(function)
        self.names: dict[ir.Value, int] = {}
        self.ops: list[tuple[int, ...]] = []
        self.after: list[tuple[int, ...]] = []
        self.definitions: dict[ir.Value, int] = {}
        """The step that defines each value."""
        self.changed: dict[ir.Value | ir.EffectClass, int] = {}
        """The step that last changed each storage, or had an effect of a class."""
        self.used: dict[ir.Value | ir.EffectClass, list[int]] = {}
        """The steps that used it since then."""
        self.fence = -1
        """The last step that no other may cross."""

    def join(self, position: int, op: ir.Unpack) -> None:
        """Adds the op to the step that defines the nested result."""
        step = self.definitions.get(op.source)
        if step is None:
            self.add((position,), op)
        else:
            self.ops[step] = (*self.ops[step], position)
            self.definitions[op.result] = step

    def add(self, ops: tuple[int, ...], op: ir.Op) -> None:
        """Adds a new step."""
        step, effects = len(self.ops), self.aliasing.effects[ops[-1]]
        bases, definitions = self._bases(ir.operands(op)), self.definitions
        after = {self.fence, *(definitions[v] for v in bases if v in definitions)}
        for state, is_changed in self._states(op, effects).items():
            after.add(self.changed.get(state, -1))
            if is_changed:
                after.update(self.used.pop(state, ()))
                self.changed[state] = step
            else:
                self.used.setdefault(state, []).append(step)
        if isinstance(op, _FENCES) or not (_checks_tensors(op) or _MOVABLE.issuperset(effects.classes)):
            after.update(range(self.fence + 1, step))
            self.fence = step
        self.ops.append(ops)
        self.after.append(tuple(sorted(after - {-1})))
        self.definitions.update(dict.fromkeys(ir.results(op), step))

    def _states(self, op: ir.Op, effects: ir.Effects) -> dict[ir.Value | ir.EffectClass, bool]:
        """The state that the op uses, and whether it changes it: storages, and effect classes for state
        outside of memory."""
        changed = {*effects.writes, *effects.moves, *(ir.operands(op) if _checks_tensors(op) else ())}
        states: dict[ir.Value | ir.EffectClass, bool] = dict.fromkeys(effects.classes, True)
        for value in {*ir.operands(op), *effects.reads, *changed}:
            for root in self.aliasing.roots.get(value, NO_ROOTS):
                states[root] = states.get(root, False) or value in changed
                if value in changed and root not in self.aliasing.owned:
                    # if a check fails, the caller can observe whether the write preceded it
                    states.setdefault(ir.EffectClass.CHECK, False)
        return states

    def _bases(self, values: Iterable[ir.Value]) -> Iterable[ir.Value]:
        """The values, and the operands of the ops that name memory among their definitions."""
        pending = list(values)
        for value in pending:
            yield value
            if value in self.names:
                pending += ir.operands(self.body[self.names[value]])

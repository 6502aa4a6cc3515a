"""Computes the storages that each value of a function may be located in, in one forward pass over the
effects.

A *root* identifies one storage: the storage value of an AllocStorage or Slot, a parameter, a constant, or a
fresh tensor result. A slot is a separate root; its *host* is the storage that contains it. If mutable
constants share a storage, the first of them is the root. Every tensor has one root, or several if it may
alias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from wrapper_ir import ir

Roots = tuple[ir.Value, ...]
Path = tuple[int | str, ...]
NO_ROOTS: Roots = ()


class AliasingContext(ir.EffectContext, Protocol):
    """Queries about the program around a function; `wrapper_ir.analysis.memo.Analyses` implements them."""

    @property
    def program(self) -> ir.Program:
        """The program."""

    @property
    def constants(self) -> Mapping[str, ir.Constant]:
        """Constants by value name."""

    @property
    def constant_values(self) -> Set[ir.Value]:
        """The values of all constants."""

    @property
    def shared_constants(self) -> Mapping[ir.Value, tuple[ir.Value, int]]:
        """For each mutable constant in a shared storage: the first constant there, and the byte offset from
        it."""

    @property
    def constant_starts(self) -> Mapping[ir.Value, int]:
        """The byte offsets of `shared_constants`."""

    def aliasing(self, function: ir.Function) -> Aliasing:
        """The cached result for a function."""


@dataclass(frozen=True, slots=True)
class Aliasing:
    """The result of the analysis for one function.

    `roots[v]` are the roots of a storage or tensor value, including the value itself if it may have separate
    storage. `uncertain` values may or may not alias: they are dropped, never freed. `owned` are the roots
    that this function must free or move: its allocations, fresh results and owned parameters, by position of
    the defining op (-1 for parameters). `escaped` are roots touched by `set_storage`: other tensors may have
    gained or lost them, so their names are dropped. `effects[i]` are the effects of the i-th op. `attached`
    maps each target of `set_storage` to the position of the first such op and the roots before it. `starts`
    are the byte offsets of mutable constants in their shared storage, from the start of the root. `hosts`
    maps each slot to the storage that contains it. `calls` maps fresh elements of a nested result to the
    position of the call.
    """

    roots: dict[ir.Value, Roots]
    uncertain: frozenset[ir.Value]
    owned: dict[ir.Value, int]
    escaped: frozenset[ir.Value]
    effects: tuple[ir.Effects, ...]
    attached: dict[ir.Value, tuple[int, Roots]]
    starts: Mapping[ir.Value, int]
    hosts: dict[ir.Value, ir.Value]
    calls: dict[ir.Value, int]

    def chain(self, root: ir.Value) -> Roots:
        """A root, followed by the storages that contain it if it is a slot, from the inside out."""
        if root not in self.hosts:
            return (root,)
        chain = [root]
        while chain[-1] in self.hosts:
            chain.append(self.hosts[chain[-1]])
        return tuple(chain)

    def roots_at(self, value: ir.Value, position: int) -> Roots:
        """The roots that a value may have when the op at `position` runs."""
        first = self.attached.get(value)
        if first is not None and position <= first[0]:
            return first[1]
        return self.roots.get(value, NO_ROOTS)


def _union(groups: Iterable[Roots]) -> Roots:
    return tuple(dict.fromkeys(root for group in groups for root in group))


class _Pass:
    def __init__(self, function: ir.Function, context: AliasingContext) -> None:
        self.context = context
        self.roots: dict[ir.Value, Roots] = {
            c.value: (context.shared_constants.get(c.value, (c.value, 0))[0],)
            for c in context.constants.values()
        }
        self.owned: dict[ir.Value, int] = {}
        self.uncertain: set[ir.Value] = set()
        self.weak: set[ir.Value] = set()
        """Defined in `propagated`."""
        self.escaped: set[ir.Value] = set()
        self.attached: dict[ir.Value, tuple[int, Roots]] = {}
        self.hosts: dict[ir.Value, ir.Value] = {}
        self.calls: dict[ir.Value, tuple[ir.Value, Path]] = {}
        """For each nested result, the result of the call and the path in it."""
        self.targets: dict[ir.Value, str] = {}
        self.positions: dict[ir.Value, int] = {}
        """Positions of the calls with nested results."""
        self.element_calls: dict[ir.Value, int] = {}
        self.unpacked: dict[tuple[ir.Value, Path], ir.Value] = {}
        for param in function.params:
            if ir.device_of(param.value) is not None:
                self.roots[param.value] = (param.value,)
                if param.ownership is ir.Ownership.OWNED:
                    self.owned[param.value] = -1

    def own(self, value: ir.Value, position: int) -> None:
        self.roots[value] = (value,)
        self.owned[value] = position

    def step(self, position: int, op: ir.Op, effects: ir.Effects) -> None:
        for value in effects.fresh:
            if ir.device_of(value) is not None:
                self.own(value, position)
        if effects.within:
            self.hosts.update(effects.within)
        for result, source in effects.aliases:
            self.roots[result] = self.roots.get(source, NO_ROOTS)
            if source in self.uncertain:
                self.uncertain.add(result)
        if effects.may_alias:
            self.may_alias(effects)

    def call(self, position: int, op: ir.CallExtern, effects: ir.Effects) -> None:
        self.step(position, op, effects)
        if op.result is not None and ir.is_results(op.result):
            self.calls[op.result] = (op.result, ())
            self.targets[op.result] = op.target
            self.positions[op.result] = position

    def set_storage(self, position: int, op: ir.SetStorage, effects: ir.Effects) -> None:
        before = self.roots.get(op.target, NO_ROOTS)
        self.step(position, op, effects)
        self.attached.setdefault(op.target, (position, before))
        self.escaped.update(self.roots.get(op.source, NO_ROOTS), self.roots.get(op.target, NO_ROOTS))

    def unpack(self, position: int, op: ir.Unpack, effects: ir.Effects) -> None:
        if ir.is_results(op.source):
            self.take(position, op)
        else:
            self.step(position, op, effects)

    def may_alias(self, effects: ir.Effects) -> None:
        sources: dict[ir.Value, list[ir.Value]] = {}
        for result, source in effects.may_alias:
            sources.setdefault(result, []).append(source)
        for result, group in sources.items():
            if result not in self.roots and ir.is_tensor(result):
                self.roots[result] = (result, *self.propagated(result, group))
            else:
                sets = (self.roots.get(result, NO_ROOTS), *(self.roots.get(s, NO_ROOTS) for s in group))
                self.roots[result] = _union(sets)
            self.uncertain.add(result)

    def propagated(self, result: ir.Value, sources: Iterable[ir.Value]) -> Roots:
        """The roots of `sources` that `result` inherits, if it may share their storage or have a separate
        one.

        A weak root is storage that an op may have allocated; its value also has other roots. Every value that
        may be located in a weak root inherits those other roots too. They alone show all that two such values
        may share, so a chain of values need not carry the weak roots of all its links.
        """
        roots = _union(self.roots.get(source, NO_ROOTS) for source in sources)
        if not self.weak.isdisjoint(roots):
            roots = tuple([root for root in roots if root not in self.weak])
        if roots:
            self.weak.add(result)
        return roots

    def take(self, position: int, op: ir.Unpack) -> None:
        """An element of a nested result: one path is one tensor, and returns without aliases are fresh."""
        base, prefix = self.calls.get(op.source, (op.source, ()))
        path = (*prefix, *op.path)
        if ir.is_results(op.result):
            self.calls[op.result] = (base, path)
            return
        if not ir.is_tensor(op.result):
            return
        first = self.unpacked.setdefault((base, path), op.result)
        if first is not op.result:
            self.roots[op.result] = self.roots.get(first, NO_ROOTS)
            if first in self.uncertain:
                self.uncertain.add(op.result)
        elif self.is_fresh(base, path):
            self.own(op.result, position)
            self.element_calls[op.result] = self.positions.get(base, position)
        else:
            self.roots[op.result] = (*self.propagated(op.result, (base,)), op.result)
            self.uncertain.add(op.result)

    def is_fresh(self, base: ir.Value, path: Path) -> bool:
        """Returns whether the element at `path` of a call's nested result has separate storage."""
        info = self.context.operator(self.targets.get(base, ""))
        if info is None or ir.ExternTag.MAY_ALIAS in info.extern.tags:
            return False
        returns = info.schema.returns
        if len(returns) > 1 and path and isinstance(path[0], int) and 0 <= path[0] < len(returns):
            return not returns[path[0]].alias
        return not any(r.alias for r in returns)


def analyse_aliasing(function: ir.Function, context: AliasingContext) -> Aliasing:
    """Runs the pass; linear in the number of ops."""
    state = _Pass(function, context)
    effects = tuple([op.effects(context) for op in function.body])
    steps: Mapping[type, Callable[..., None]] = {
        ir.CallExtern: state.call,
        ir.SetStorage: state.set_storage,
        ir.Unpack: state.unpack,
    }
    for position, (op, effect) in enumerate(zip(function.body, effects, strict=True)):
        steps.get(op.__class__, state.step)(position, op, effect)
    return Aliasing(
        state.roots,
        frozenset(state.uncertain),
        state.owned,
        frozenset(state.escaped),
        effects,
        state.attached,
        context.constant_starts,
        state.hosts,
        state.element_calls,
    )


def summarise(function: ir.Function, context: AliasingContext) -> ir.FunctionSummary:
    """Summarises the effects of a call of `function` for its caller."""
    aliasing = context.aliasing(function)
    position = {p.value: i for i, p in enumerate(function.params)}
    reads: dict[ir.Value, None] = {}
    writes: dict[ir.Value, None] = {}
    classes: dict[ir.EffectClass, None] = {}
    for effects in aliasing.effects:
        for values, roots in ((effects.reads, reads), (effects.writes, writes)):
            for value in values:
                for root in aliasing.roots.get(value, NO_ROOTS):
                    roots.update(dict.fromkeys(aliasing.chain(root)))
        classes.update(dict.fromkeys(effects.classes))
    constants = context.constant_values
    mutable = {c.value for c in context.program.constants if c.mutable}
    return ir.FunctionSummary(
        read_params=frozenset(position[v] for v in reads if v in position),
        owned_params=frozenset(i for i, p in enumerate(function.params) if p.ownership is ir.Ownership.OWNED),
        written_params=frozenset(position[v] for v in writes if v in position),
        read_constants=tuple(v for v in reads if v in mutable),
        written_constants=tuple(v for v in writes if v in constants),
        classes=tuple(classes),
        results=tuple(_origin(arg, aliasing, position, constants) for arg in returned_values(function)),
    )


def returned_values(function: ir.Function) -> tuple[ir.Arg, ...]:
    """The values that the function returns; none if its body does not end in a return."""
    return () if function.last_return is None else function.last_return.values


def _origin(
    arg: ir.Arg, aliasing: Aliasing, position: dict[ir.Value, int], constants: Set[ir.Value]
) -> ir.ResultOrigin | None:
    if not ir.is_tensor(arg):
        return None
    roots = aliasing.roots.get(arg, NO_ROOTS)
    return ir.ResultOrigin(
        params=tuple(position[r] for r in roots if r in position and r not in aliasing.owned),
        constants=tuple(r for r in roots if r in constants),
        own=tuple(r for r in roots if r in aliasing.owned or (r not in position and r not in constants)),
        certain=arg not in aliasing.uncertain and len(roots) == 1,
    )

"""Gives callees their memory from their callers: storages of branches, loop bodies and callees become slots of storage
parameters, and each call is given storages that hold them.

The caller plans what it lends like its own storages. Branches of a switch are given the same storages, a loop gives its own to
all trips, and two calls of one function may be given the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.memory import held_outside
from wrapper_ir.analysis.recorded import recorded_functions
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.expr import Expr, Int, mul
from wrapper_ir.expr.operators import ADD, FLOORDIV, MAX, MIN, MOD, MUL
from wrapper_ir.expr.ranges import prove_nonneg
from wrapper_ir_passes.memory.pool_candidates import (
    PlannableStorage,
    fresh_pool_name,
    plannable_storages,
    symbol_ranges,
)
from wrapper_ir_passes.planner import Buffer, Packer, held_bytes, plan_pools
from wrapper_ir_passes.planner.buffers import height

_Kind = tuple[ir.Device, ir.MemorySpace, Expr]
"""Storages of one kind lie in one parameter: device, memory space, and the factor of their bytes."""


_Storages = dict[_Kind, list[PlannableStorage]]


@dataclass(frozen=True, slots=True)
class _Room:
    """What one parameter is given: `units` times the factor of `kind` bytes."""

    kind: _Kind
    units: int
    alignment: int

    def value(self, used: set[str]) -> ir.Value[ir.StorageType]:
        """A storage of it, with a name of its own."""
        device, space, factor = self.kind
        nbytes = mul(self.units, factor)
        return ir.Value(fresh_pool_name(used), ir.StorageType(nbytes, device, space, self.alignment))


@dataclass(frozen=True, slots=True)
class _Layout:
    """The storages of one function that lie in a room, and where, in units of the factor."""

    room: _Room
    storages: tuple[PlannableStorage, ...]
    places: Mapping[str, int]


class Hoister:
    """Moves storages of callees to their callers, for one program whose lifetimes are derived."""

    def __init__(self, analyses: Analyses, sizes: Sizes, packer: Packer) -> None:
        self.analyses, self.sizes, self.packer = analyses, sizes, packer
        self.program = analyses.program
        self.calls = [op for op in self.program.ops if isinstance(op, ir.CallingOp)]
        self.constants = {v.name for v in analyses.constant_values}
        self.ranges = symbol_ranges(self.program)

    def hoisted(self, slack: float | None = None) -> ir.Program:
        """The program with storages of callees lent by their callers, without frees of these. What is lent is held throughout
        the call: with a `slack`, a function lends what it can while it holds at most that share more than it needs at its worst
        moment; without, all.

        Raises ExpressionError where a size has no value under the hints.
        """
        done: dict[str, ir.Function] = {}
        rooms: dict[str, tuple[_Room, ...]] = {}
        fixed = {self.program.main.name, *self.analyses.get(recorded_functions)}
        for group, is_open in _groups(self.program, self.calls):
            members = {name: self._lending(self.analyses.functions[name], rooms) for name in group}
            done |= members
            if is_open and fixed.isdisjoint(group):
                layouts = self._layouts(members, slack)
                shared = _largest(layouts.values())
                rooms |= dict.fromkeys(group, shared)
                done |= {n: self._lent(f, layouts[n], shared) for n, f in members.items()}
        return self.program.with_functions(done[f.name] for f in self.program.functions)

    # --- callers

    def _lending(self, function: ir.Function, rooms: Mapping[str, tuple[_Room, ...]]) -> ir.Function:
        """The function with a storage for each parameter of what it calls, just before the call."""
        if not any(rooms.get(name) for op in function.body for name in ir.callees(op)):
            return function
        used = self._names(function)
        body: list[ir.Op] = []
        for op in function.body:
            given = rooms.get(ir.callees(op)[0], ()) if isinstance(op, ir.CallingOp) else ()
            values = tuple([room.value(used) for room in given])
            body += [ir.AllocStorage(result=v, prov=op.prov) for v in values]
            body.append(_with_args(op, values) if values and isinstance(op, ir.CallingOp) else op)
        return function.with_body(body)

    def _names(self, function: ir.Function) -> set[str]:
        return {v.name for v in ir.definitions(function)} | self.constants

    # --- callees

    def _layouts(
        self, members: Mapping[str, ir.Function], slack: float | None
    ) -> dict[str, tuple[_Layout, ...]]:
        """By member of a group, what of it is hoisted."""
        found = {name: self._storages(function) for name, function in members.items()}
        if slack is not None:
            found = {name: self._within(members[name], of, slack) for name, of in found.items()}
        for kind in [*self._partial(members, found)]:
            for storages in found.values():
                storages.pop(kind, None)
        return {n: tuple([self._layout(members[n], k, s) for k, s in of.items()]) for n, of in found.items()}

    def _storages(self, function: ir.Function) -> _Storages:
        """Storages whose sizes are known where the function is called, and never negative there."""
        found: _Storages = {}
        if any(isinstance(op, ir.EnterMemoryPool) for op in function.body):
            return found
        for storage in plannable_storages(function, self.analyses):
            factor = storage.factor
            if (
                not storage.op.stream
                and not storage.op.result.type.is_group_memory
                and factor.free_symbols <= set(function.captures)
                and _never_fails(factor)
                and prove_nonneg(factor, self.ranges)
            ):
                found.setdefault(_kind(storage), []).append(storage)
        return found

    def _partial(
        self, members: Mapping[str, ir.Function], found: Mapping[str, Mapping[_Kind, object]]
    ) -> Iterator[_Kind]:
        """Kinds of symbolic sizes that a call would lend without need: those that a branch does without, or that are not defined
        at each call. Of those that all branches have, one needs at most a fixed multiple of another."""
        calls = [op for op in self.calls if ir.callees(op)[0] in members]
        for kind in dict.fromkeys(kind for storages in found.values() for kind in storages):
            symbols = kind[2].free_symbols
            defined = any(
                isinstance(op, ir.Define) and op.symbol in symbols for f in members.values() for op in f.body
            )
            needed = [
                n for op in calls for n in ((op.body_fn,) if isinstance(op, ir.WhileLoop) else ir.callees(op))
            ]
            if symbols and (defined or any(kind not in found[name] for name in needed)):
                yield kind

    def _layout(self, function: ir.Function, kind: _Kind, storages: Sequence[PlannableStorage]) -> _Layout:
        unit, buffers = self._unit(kind), self._buffers(function, kind, storages)
        offsets = self.packer(buffers)
        alignment = max(s.op.result.type.alignment for s in storages)
        room = _Room(kind, height(buffers, offsets) // unit, alignment)
        return _Layout(room, tuple(storages), {name: at // unit for name, at in offsets.items()})

    def _buffers(
        self, function: ir.Function, kind: _Kind, storages: Iterable[PlannableStorage]
    ) -> list[Buffer]:
        last_use = self.analyses.get_for(function, analyse_liveness).storages
        return [s.buffer(last_use[s.op.result], self._unit(kind)) for s in storages]

    def _unit(self, kind: _Kind) -> int:
        return max(1, self.sizes.number(kind[2]))

    def _within(self, function: ir.Function, storages: _Storages, slack: float) -> _Storages:
        """Those of the storages that the function may hold throughout: as many as there is room for, in the pools that it would
        have of its own, the largest first."""
        named = {s.op.result.name: s for of_kind in storages.values() for s in of_kind}
        kinds: dict[str, Hashable] = {s.op.result.name: k for k, of_kind in storages.items() for s in of_kind}
        buffers = [b for k, of_kind in storages.items() for b in self._buffers(function, k, of_kind)]
        planned = {s.op.result for s in named.values()}
        outside = held_outside(function, self.analyses, self.sizes, planned)
        limit = max(held_bytes(buffers, outside), default=0) * (1 + slack)
        left = sorted(plan_pools(buffers, outside, kinds, slack, self.packer), key=lambda pool: -pool.size)
        chosen: _Storages = {}
        for pool in tuple(left):
            others = [p for p in left if p is not pool]
            trial = {k: [*of_kind] for k, of_kind in chosen.items()}
            for b in pool.buffers:
                s = named[b.name]
                trial.setdefault(_kind(s), []).append(s)
            rooms = [self._layout(function, k, of_kind).room for k, of_kind in trial.items()]
            lent = sum(room.units * self._unit(room.kind) for room in rooms)
            if lent + max(held_bytes(others, outside), default=0) <= limit:
                left, chosen = others, trial
        return chosen

    def _lent(
        self, function: ir.Function, layouts: Iterable[_Layout], rooms: tuple[_Room, ...]
    ) -> ir.Function:
        """The function with parameters for these rooms, and slots of them."""
        used = self._names(function)
        given = {room.kind: room.value(used) for room in rooms}
        slots: dict[ir.Value, ir.Slot] = {}
        for layout in layouts:
            pool = given[layout.room.kind]
            for s in layout.storages:
                slots[s.op.result] = s.slot(pool, layout.places[s.op.result.name])
        symbols = {s for room in rooms for s in room.kind[2].free_symbols} - {*function.captures}
        return dataclasses.replace(
            function,
            params=(*function.params, *(ir.Param(value=v) for v in given.values())),
            captures=(*function.captures, *sorted(symbols)),
            body=tuple(
                [slots.get(op.result, op) if isinstance(op, ir.AllocStorage) else op for op in function.body]
            ),
        )


def _kind(storage: PlannableStorage) -> _Kind:
    type = storage.op.result.type
    return type.device, type.space, storage.factor


def _with_args(op: ir.CallingOp, values: tuple[ir.Value, ...]) -> ir.Op:
    if isinstance(op, ir.WhileLoop):
        return dataclasses.replace(op, captured=(*op.captured, *values))
    return dataclasses.replace(op, args=(*op.args, *values))


def _largest(layouts: Iterable[tuple[_Layout, ...]]) -> tuple[_Room, ...]:
    """For each kind, a room that holds what any of the functions has in it."""
    found: dict[_Kind, _Room] = {}
    for layout in (layout for of_function in layouts for layout in of_function):
        room = layout.room
        other = found.get(room.kind, room)
        found[room.kind] = _Room(
            room.kind, max(room.units, other.units), max(room.alignment, other.alignment)
        )
    return tuple(found.values())


def _never_fails(e: Expr) -> bool:
    """Whether an int expression has a value for all values of its symbols, also where its function is not called."""
    if e.op in (FLOORDIV, MOD):
        return isinstance(e.args[1], Int) and e.args[1].value > 0 and _never_fails(e.args[0])
    return not e.op or (e.op in (ADD, MUL, MIN, MAX) and all(map(_never_fails, e.args)))


def _groups(program: ir.Program, calls: Collection[ir.CallingOp]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Functions that one op calls, since they are given the same arguments, callees first; and whether no function of the group
    leads to a call of the group."""
    members = {f.name: [f.name] for f in program.functions}
    for op in calls:
        for name in ir.callees(op)[1:]:
            first, other = members[ir.callees(op)[0]], members[name]
            if first is not other:
                first += other
                members.update(dict.fromkeys(other, first))
    called = {f.name: [name for op in f.body for name in ir.callees(op)] for f in program.functions}
    state: dict[int, bool] = {}
    found: list[list[str]] = []

    def visit(group: list[str]) -> None:
        if id(group) in state:
            state[id(group)] &= group in found
            return
        state[id(group)] = True
        for name in group:
            for callee in called[name]:
                visit(members[callee])
        found.append(group)

    for function in program.functions:
        visit(members[function.name])
    for group in found:
        yield tuple(group), state[id(group)]

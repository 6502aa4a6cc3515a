"""Moves storages of branches, loop bodies and callees into memory that their callers pass as storage
parameters.

The caller plans this memory like its own storages. Branches of a switch get the same storages, a loop passes
its own to all iterations, and two calls of one function may get the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.replayable import replayed_functions
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.expr import Expr, as_int, mul
from wrapper_ir.expr.operators import ADD, FLOORDIV, MAX, MIN, MOD, MUL
from wrapper_ir.expr.ranges import prove_nonneg
from wrapper_ir_passes.analysis.memory import held_outside
from wrapper_ir_passes.memory.pool_candidates import (
    PlannableStorage,
    fresh_pool_name,
    plannable_storages,
    symbol_ranges,
)
from wrapper_ir_passes.planner import Buffer, Packer, held_bytes, plan_pools
from wrapper_ir_passes.planner.buffers import height

_Kind = tuple[ir.Device, ir.MemorySpace, Expr]
"""The kind of a parameter, which all of its storages share: device, memory space, and the factor of their
bytes.
"""


_Storages = dict[_Kind, list[PlannableStorage]]


@dataclass(frozen=True, slots=True)
class _Room:
    """The memory of one parameter: `units` times the factor of `kind` bytes."""

    kind: _Kind
    units: int
    alignment: int

    def value(self, names: set[str]) -> ir.Value[ir.StorageType]:
        """Returns a storage of this size with a new name."""
        device, space, factor = self.kind
        nbytes = mul(self.units, factor)
        return ir.Value(fresh_pool_name(names), ir.StorageType(nbytes, device, space, self.alignment))


@dataclass(frozen=True, slots=True)
class _Layout:
    """Storages of one function in one parameter, with their positions, in units of the factor."""

    room: _Room
    storages: tuple[PlannableStorage, ...]
    places: Mapping[str, int]


class Hoister:
    """Moves storages of callees to their callers, for one program whose lifetimes are derived."""

    def __init__(self, analyses: Analyses, sizes: Sizes, packer: Packer) -> None:
        self.analyses, self.sizes, self.packer = analyses, sizes, packer
        self.program = analyses.program
        self.calls = [*self.program.ops_of(ir.CallSubgraph, ir.Switch, ir.WhileLoop)]
        self.constants = {v.name for v in analyses.constant_values}
        self.ranges = symbol_ranges(self.program)

    def hoisted(self, slack: float | None = None) -> ir.Program:
        """Returns the program with storages of callees passed by their callers, without frees of these.

        Passed memory is in use throughout the call. With a `slack`, a function passes as much as possible
        while its peak grows by at most that share; without, all. Raises ExpressionError if a size has no
        value under the hints.
        """
        new_functions: dict[str, ir.Function] = {}
        rooms: dict[str, tuple[_Room, ...]] = {}
        fixed = {self.program.main.name, *self.analyses.get(replayed_functions)}
        for group, is_open in _groups(self.program, self.calls):
            members = {name: self._lending(self.analyses.functions[name], rooms) for name in group}
            new_functions |= members
            if is_open and fixed.isdisjoint(group):
                layouts = self._layouts(members, slack)
                shared = _largest(layouts.values())
                rooms |= dict.fromkeys(group, shared)
                new_functions |= {n: self._lent(f, layouts[n], shared) for n, f in members.items()}
        return self.program.with_functions(new_functions[f.name] for f in self.program.functions)

    # --- callers

    def _lending(self, function: ir.Function, rooms: Mapping[str, tuple[_Room, ...]]) -> ir.Function:
        """Returns the function with a storage for each storage parameter of its callees, just before the
        call.
        """
        if not any(rooms.get(name) for op in function.body for name in ir.callees(op)):
            return function
        names = self._names(function)
        body: list[ir.Op] = []
        for op in function.body:
            parameters = next((rooms.get(name, ()) for name in ir.callees(op)), ())
            values = tuple([room.value(names) for room in parameters])
            body += [ir.AllocStorage(result=v, prov=op.prov) for v in values]
            body.append(_with_args(op, values) if values else op)
        return function.with_body(body)

    def _names(self, function: ir.Function) -> set[str]:
        return {v.name for v in ir.definitions(function)} | self.constants

    # --- callees

    def _layouts(
        self, members: Mapping[str, ir.Function], slack: float | None
    ) -> dict[str, tuple[_Layout, ...]]:
        """Returns the hoisted storages of each member of a group."""
        layouts = {name: self._storages(function) for name, function in members.items()}
        if slack is not None:
            layouts = {name: self._within(members[name], of, slack) for name, of in layouts.items()}
        for kind in [*self._partial(members, layouts)]:
            for storages in layouts.values():
                storages.pop(kind, None)
        return {
            n: tuple([self._layout(members[n], k, s) for k, s in of.items()]) for n, of in layouts.items()
        }

    def _storages(self, function: ir.Function) -> _Storages:
        """Storages whose sizes are known, and never negative, at the function's calls."""
        storages: _Storages = {}
        if function.has(ir.EnterMemoryPool):
            return storages
        for storage in plannable_storages(function, self.analyses):
            factor = storage.factor
            if (
                not storage.op.stream
                and not storage.op.result.type.is_group_memory
                and factor.free_symbols <= set(function.captures)
                and _never_fails(factor)
                and prove_nonneg(factor, self.ranges)
            ):
                storages.setdefault(_kind(storage), []).append(storage)
        return storages

    def _partial(
        self, members: Mapping[str, ir.Function], candidates: Mapping[str, Mapping[_Kind, object]]
    ) -> Iterator[_Kind]:
        """Kinds of symbolic sizes that a call may pass unnecessarily.

        These are kinds that a branch does not use, or that are undefined at a call. If all branches use a
        kind, one needs at most a fixed multiple of another.
        """
        calls = [op for op in self.calls if ir.callees(op)[0] in members]
        for kind in dict.fromkeys(kind for storages in candidates.values() for kind in storages):
            symbols = kind[2].free_symbols
            defined = any(op.symbol in symbols for f in members.values() for op in f.ops_of(ir.Define))
            names = [name for op in calls for name in _bodies(op)]
            if symbols and (defined or any(kind not in candidates[name] for name in names)):
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
        """Returns the storages that may be in use throughout the function, within the slack.

        Selects them by the function's own pools, the largest first.
        """
        by_name = {s.op.result.name: s for of_kind in storages.values() for s in of_kind}
        kinds: dict[str, Hashable] = {s.op.result.name: k for k, of_kind in storages.items() for s in of_kind}
        buffers = [b for k, of_kind in storages.items() for b in self._buffers(function, k, of_kind)]
        planned = {s.op.result for s in by_name.values()}
        outside = held_outside(function, self.analyses, self.sizes, planned)
        limit = max(held_bytes(buffers, outside), default=0) * (1 + slack)
        pools = sorted(plan_pools(buffers, outside, kinds, slack, self.packer), key=lambda pool: -pool.size)
        selection: _Storages = {}
        for pool in tuple(pools):
            others = [p for p in pools if p is not pool]
            trial = {k: [*of_kind] for k, of_kind in selection.items()}
            for b in pool.buffers:
                s = by_name[b.name]
                trial.setdefault(_kind(s), []).append(s)
            rooms = [self._layout(function, k, of_kind).room for k, of_kind in trial.items()]
            lent = sum(room.units * self._unit(room.kind) for room in rooms)
            if lent + max(held_bytes(others, outside), default=0) <= limit:
                pools, selection = others, trial
        return selection

    def _lent(
        self, function: ir.Function, layouts: Iterable[_Layout], rooms: tuple[_Room, ...]
    ) -> ir.Function:
        """Returns the function with parameters of these sizes, and slots of them."""
        names = self._names(function)
        values = {room.kind: room.value(names) for room in rooms}
        slots: dict[int, ir.Slot] = {}
        for layout in layouts:
            pool = values[layout.room.kind]
            for s in layout.storages:
                slots[s.position] = s.slot(pool, layout.places[s.op.result.name])
        symbols = {s for room in rooms for s in room.kind[2].free_symbols} - {*function.captures}
        return dataclasses.replace(
            function,
            params=(*function.params, *(ir.Param(value=v) for v in values.values())),
            captures=(*function.captures, *sorted(symbols)),
            body=tuple([slots.get(position, op) for position, op in enumerate(function.body)]),
        )


def _kind(storage: PlannableStorage) -> _Kind:
    type = storage.op.result.type
    return type.device, type.space, storage.factor


def _with_args(op: ir.Op, values: tuple[ir.Value, ...]) -> ir.Op:
    match op:
        case ir.WhileLoop(captured=captured):
            return dataclasses.replace(op, captured=(*captured, *values))
        case ir.CallSubgraph() | ir.Switch():
            return dataclasses.replace(op, args=(*op.args, *values))
        case _:
            return op


def _bodies(op: ir.CallingOp) -> tuple[str, ...]:
    """Returns the functions that a call runs for their results: not the condition of a loop."""
    match op:
        case ir.WhileLoop(body_fn=name):
            return (name,)
        case _:
            return ir.callees(op)


def _largest(layouts: Iterable[tuple[_Layout, ...]]) -> tuple[_Room, ...]:
    """For each kind, the memory that is sufficient for all of the functions."""
    rooms: dict[_Kind, _Room] = {}
    for layout in (layout for of_function in layouts for layout in of_function):
        room = layout.room
        other = rooms.get(room.kind, room)
        rooms[room.kind] = _Room(
            room.kind, max(room.units, other.units), max(room.alignment, other.alignment)
        )
    return tuple(rooms.values())


def _never_fails(e: Expr) -> bool:
    """Returns whether an int expression has a value for all values of its symbols.

    Callers evaluate it even at positions that are not executed.
    """
    if e.op in (FLOORDIV, MOD):
        return (as_int(e.args[1]) or 0) > 0 and _never_fails(e.args[0])
    return not e.op or (e.op in (ADD, MUL, MIN, MAX) and all(map(_never_fails, e.args)))


def _groups(program: ir.Program, calls: Collection[ir.CallingOp]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yields functions that one op calls, which get the same arguments, callees first.

    The flag is true if no function of the group leads to a call of the group.
    """
    members = {f.name: [f.name] for f in program.functions}
    for op in calls:
        for name in ir.callees(op)[1:]:
            first, other = members[ir.callees(op)[0]], members[name]
            if first is not other:
                first += other
                members.update(dict.fromkeys(other, first))
    callees = {f.name: [name for op in f.body for name in ir.callees(op)] for f in program.functions}
    state: dict[int, bool] = {}
    groups: list[list[str]] = []

    def visit(group: list[str]) -> None:
        if id(group) in state:
            state[id(group)] &= group in groups
            return
        state[id(group)] = True
        for name in group:
            for callee in callees[name]:
                visit(members[callee])
        groups.append(group)

    for function in program.functions:
        visit(members[function.name])
    for group in groups:
        yield tuple(group), state[id(group)]

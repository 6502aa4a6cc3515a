"""The memory of a program as data: the storages of each function, their lifetimes, and the peak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import Aliasing
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.support.collection import paused_collection
from wrapper_ir.text import print_op
from wrapper_ir_passes.analysis.memory import callee_use, freed_at, held_outside, memory_use
from wrapper_ir_passes.analysis.temporaries.table import temporaries, unknown_temporaries
from wrapper_ir_passes.planner import Buffer, pack
from wrapper_ir_tools.report.savings import Saving, savings_of

_INSIDE = ("call", "slot")
"""Kinds whose bytes are counted in the storages inside them, or in the storage around them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldStorage:
    """Bytes that a function holds, from the op at `begin` up to, but excluding, the one at `end`.

    `kind` is `allocation`, `workspace`, `pool`, `slot` (inside `pool`, whose bytes count), `result` (an
    operator allocates it), `call` (memory of the callee during a call, including its results), `trip`
    (results of a loop's previous trip) or `temporary` (an operator allocates and frees it). `address` is a
    position in one memory that fits all of them, which reports draw. A slot's address is relative to its
    pool's, or to a pool parameter of the caller. `op`, `source` and `modules` are those of the op that fills
    the storage first.
    """

    name: str
    kind: str
    bytes: int
    begin: int
    end: int
    address: int
    alignment: int = 1
    pool: str = ""
    op: str = ""
    source: str = ""
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionMemory:
    """One call of a function: bytes held during each op, and the storages.

    `peak_op` is the op at the peak.
    """

    name: str
    held: tuple[int, ...]
    peak_op: int
    storages: tuple[HeldStorage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An op of a function that runs at the peak; `held` names the storages that the function holds then."""

    function: str
    op_index: int
    op: str
    source: str
    held: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """Memory of one call of a program under hints, in bytes. Constants and arguments are reported separately.

    `held_peak` is the maximum held at once. `live` is the maximum of live bytes in this order of ops. `bound`
    is a lower bound of any plan of this order (see `MemoryUse`). `allocations` counts the storages that all
    functions of the program allocate. `peak` is the path to the peak: an op of main and, for a call, the op
    inside, and so on. `savings` refer to the moment with the most live bytes. `unknown_temporaries` counts,
    in all functions, the calls of operators whose temporaries are unknown and not included.
    """

    held_peak: int
    live: int
    bound: int
    allocated: int
    allocations: int
    constants: int
    arguments: int
    assumed: tuple[str, ...]
    peak: tuple[Moment, ...]
    functions: tuple[FunctionMemory, ...]
    savings: tuple[Saving, ...]
    unknown_temporaries: Mapping[str, int]

    def held_at_peak(self) -> Iterator[tuple[Moment, HeldStorage]]:
        """Storages at the peak, largest first; slots are counted in their pools, callees' storages one by
        one.
        """
        functions = {f.name: {s.name: s for s in f.storages} for f in self.functions}
        pairs = [(m, functions[m.function][name]) for m in self.peak for name in m.held]
        yield from sorted(
            ((m, s) for m, s in pairs if s.kind not in _INSIDE), key=lambda pair: -pair[1].bytes
        )


@paused_collection()
def memory_report(program: ir.Program, hints: Mapping[str, int] | None = None) -> MemoryReport:
    """Reports the memory of a valid program; `hints` override the hints of symbol declarations.

    Raises ExpressionError if a size has no value under the hints (a division by zero).
    """
    analyses, sizes = Analyses(program), Sizes(program, hints)
    use = memory_use(program.main, analyses, sizes)
    functions = {f.name: _Function(f, analyses, sizes).memory() for f in program.functions}
    return MemoryReport(
        held_peak=use.peak,
        live=use.live,
        bound=use.bound,
        allocated=use.allocated,
        allocations=sum(1 for _ in program.ops_of(ir.AllocStorage)),
        constants=sum(sizes.bytes_of(c.value) for c in program.constants),
        arguments=sum(sizes.bytes_of(p.value) for p in program.main.params),
        assumed=tuple(sorted(sizes.assumed)),
        peak=tuple(_moments(program.main, functions, analyses, sizes)),
        functions=tuple(functions.values()),
        savings=savings_of(program.main, analyses, sizes),
        unknown_temporaries=_unknown(program, sizes),
    )


def _unknown(program: ir.Program, sizes: Sizes) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for function in program.functions:
        counts.update(unknown_temporaries(function, sizes))
    return dict(sorted(counts.items()))


def _moments(
    function: ir.Function, memory: Mapping[str, FunctionMemory], analyses: Analyses, sizes: Sizes
) -> Iterator[Moment]:
    while True:
        memory_of = memory[function.name]
        op = function.body[memory_of.peak_op]
        yield Moment(
            function=function.name,
            op_index=memory_of.peak_op,
            op=print_op(op, analyses.program),
            source=source_text(op),
            held=tuple(s.name for s in memory_of.storages if s.begin <= memory_of.peak_op < s.end),
        )
        inside = [analyses.functions[n] for n in ir.callees(op)]
        if not inside:
            return
        function = max(inside, key=lambda f: max(memory[f.name].held))


def source_text(op: ir.Op) -> str:
    """Formats the provenance of an op; empty if nothing is known."""
    return ", ".join((*op.prov.nodes, *op.prov.ops, *op.prov.locations))


class _Function:
    def __init__(self, function: ir.Function, analyses: Analyses, sizes: Sizes) -> None:
        self.function, self.analyses, self.sizes = function, analyses, sizes
        self.live = analyses.get_for(function, analyse_liveness)
        self.aliasing: Aliasing = self.live.aliasing
        self.filled = self._filled()
        self.texts: dict[int, str] = {}
        """Of ops, by position: a launch fills many storages."""

    def memory(self) -> FunctionMemory:
        """The storages of the function, ordered by `begin`."""
        held_bytes = held_outside(self.function, self.analyses, self.sizes, frozenset())
        storages = sorted(
            (*self._own(), *self._calls(), *self._temporaries()), key=lambda s: (s.begin, s.name)
        )
        buffers = [Buffer(s.name, s.begin, s.end, s.bytes) for s in storages if s.kind != "slot"]
        places = dict(pack(buffers))
        placed = []
        # a pool begins before its slots
        for storage in storages:
            places[storage.name] = (
                places.get(storage.pool, 0) + storage.address if storage.pool else places[storage.name]
            )
            placed.append(replace(storage, address=places[storage.name]))
        return FunctionMemory(
            name=self.function.name,
            held=tuple(held_bytes),
            peak_op=max(range(len(held_bytes)), key=held_bytes.__getitem__),
            storages=tuple(placed),
        )

    def _text(self, position: int) -> str:
        text = self.texts.get(position)
        if text is None:
            op = self.function.body[position]
            text = self.texts[position] = print_op(op, self.analyses.program)
        return text

    def _filled(self) -> dict[ir.Value, int]:
        """The first op that writes each storage."""
        positions: dict[ir.Value, int] = {}
        for position, effects in enumerate(self.aliasing.effects):
            for value in effects.writes:
                for root in self.aliasing.roots.get(value, ()):
                    positions.setdefault(root, position)
        return positions

    def _own(self) -> Iterator[HeldStorage]:
        """Storages of the function itself; the address of a slot is still its offset."""
        body, ends = self.function.body, freed_at(self.function, self.live)
        for root, defined in self.aliasing.owned.items():
            position = self.aliasing.calls.get(root, defined)
            if position < 0:
                # a donated argument belongs to the caller
                continue
            op = body[position]
            kind, pool, offset = _kind(op), "", 0
            match op:
                case ir.Slot():
                    pool, offset = op.pool.name, self.sizes.number(op.offset)
                case _:
                    pass
            filled = position if kind == "pool" else self.filled.get(root, position)
            fills = body[filled]
            yield HeldStorage(
                name=root.name,
                kind=kind,
                bytes=self.sizes.bytes_of(root),
                # during the call, the callee's entry counts it
                begin=position + bool(ir.callees(op)),
                end=ends.get(root, len(body) - 1) + 1,
                address=offset,
                alignment=root.type.alignment if ir.is_storage(root) else 1,
                pool=pool,
                op=self._text(filled),
                source=source_text(fills),
                modules=fills.prov.modules,
            )

    def _calls(self) -> Iterator[HeldStorage]:
        for position, op in self.function.positions_of(ir.CallSubgraph, ir.Switch, ir.WhileLoop):
            result_bytes = sum(
                self.sizes.bytes_of(v) for v in ir.results(op) if self.aliasing.owned.get(v) == position
            )
            whole = max(result_bytes, callee_use(op, self.analyses, self.sizes).peak)
            inside = max(
                memory_use(self.analyses.functions[n], self.analyses, self.sizes).peak for n in ir.callees(op)
            )
            for kind, size in (("call", inside), ("trip", whole - inside)):
                if size:
                    yield self._during(position, kind, size)

    def _temporaries(self) -> Iterator[HeldStorage]:
        for position, size in temporaries(self.function, self.sizes).items():
            yield self._during(position, "temporary", size)

    def _during(self, position: int, kind: str, size: int) -> HeldStorage:
        """Bytes held during one op."""
        op = self.function.body[position]
        return HeldStorage(
            name=f"{kind} at {position}",
            kind=kind,
            bytes=size,
            begin=position,
            end=position + 1,
            address=0,
            op=self._text(position),
            source=source_text(op),
            modules=op.prov.modules,
        )


def _kind(op: ir.Op) -> str:
    match op:
        case ir.Slot():
            return "slot"
        case ir.AllocStorage(purpose=ir.AllocPurpose.PLAIN):
            return "allocation"
        case ir.AllocStorage(purpose=purpose):
            return purpose.value
        case _:
            return "result"

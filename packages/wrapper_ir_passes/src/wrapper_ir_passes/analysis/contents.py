"""Computes the live ranges of storages' contents, and the ops that could overwrite an argument that they read
last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wrapper_ir import ir
from wrapper_ir.analysis.accumulation import accumulated
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.liveness import Liveness, analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import tensor_places
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.errors import ExpressionError

Span = tuple[int, int]
"""The first and the last op of a live range; or a range of bytes, whose end is exclusive."""
_OVERWRITERS = (ir.CallExtern, ir.Copy, ir.Launch)
"""Ops that overwrite every element of a tensor that they write and do not read."""
_MOST_PARTS = 64
"""With more live parts than this, all bytes from the first to the last part count as live."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The result of the analysis for one function; positions are indices of ops, -1 is the entry.

    `spans` are the live ranges of the content of each owned storage. A range begins once no earlier
    content is read again, and ends at the last read. `uses` are the positions of all ops that use the
    storage. `in_place` maps a launch or matmul to the most bytes that it could save by overwriting arguments
    that it reads last, as `in_place_pairs` allows.
    """

    spans: dict[ir.Value, tuple[Span, ...]]
    uses: dict[ir.Value, tuple[int, ...]]
    in_place: dict[int, int]


@dataclass(slots=True)
class _Access:
    """The accesses of one op to one storage: bytes that it reads, and bytes that it overwrites without
    reading."""

    position: int
    reads: list[Span] = field(default_factory=list)
    overwritten: list[Span] = field(default_factory=list)


def contents_of(function: ir.Function, analyses: Analyses, sizes: Sizes) -> Contents:
    """Runs the analysis; near linear in the number of ops. A collective uses its arguments until its
    `Wait`."""
    finder = _Contents(function, analyses, sizes)
    accesses = finder.accesses()
    spans = {root: finder.spans(root, of_root) for root, of_root in accesses.items()}
    uses = {root: tuple([a.position for a in of_root]) for root, of_root in accesses.items()}
    return Contents(spans, uses, finder.in_place(spans))


class _Contents:
    def __init__(self, function: ir.Function, analyses: Analyses, sizes: Sizes) -> None:
        self.function, self.analyses, self.sizes = function, analyses, sizes
        self.live: Liveness = analyses.get_for(function, analyse_liveness)
        self.aliasing = self.live.aliasing
        self.places = analyses.get_for(function, tensor_places)
        self.fixed = {
            op.result
            for op in function.ops_of(ir.AllocStorage)
            if op.zero is ir.ZeroMode.ONCE  # kernels leave zeros for the next call
        }
        self.results: dict[int, list[ir.Value]] = {}
        """Owned results by position, except allocations; elements of a nested result belong to its call."""
        for root, position in self.aliasing.owned.items():
            if position >= 0:
                self.results.setdefault(self.aliasing.calls.get(root, position), []).append(root)

    def accesses(self) -> dict[ir.Value, list[_Access]]:
        """The accesses to each storage, in order; a donated parameter may be freed before the first op."""
        by_root = {root: [_Access(-1)] for root, position in self.aliasing.owned.items() if position < 0}
        in_flight: dict[ir.Value, list[ir.Value]] = {}
        for position, op in enumerate(self.function.body):
            if isinstance(op, ir.Free):
                continue
            for result, operand in self.aliasing.effects[position].holds:
                in_flight.setdefault(result, []).append(operand)
            for root, access in self._of(op, position, in_flight).items():
                by_root.setdefault(root, []).append(access)
        return by_root

    def _of(
        self, op: ir.Op, position: int, in_flight: dict[ir.Value, list[ir.Value]]
    ) -> dict[ir.Value, _Access]:
        """The accesses of the op to owned storages. Views and allocations only name memory: they access
        none."""
        by_root: dict[ir.Value, _Access] = {}
        operands = ir.operands(op)
        match op:
            case ir.View():
                return by_root
            case ir.AllocStorage() | ir.Slot():
                if op.zero is not ir.ZeroMode.NONE:
                    self._access(by_root, op.result, position).overwritten.append(
                        (0, self.sizes.bytes_of(op.result))
                    )
                return by_root
            case ir.Wait():
                operands = (*operands, *in_flight.get(op.source, ()))
            case _:
                pass
        effects = self.aliasing.effects[position]
        for value in self.results.get(position, ()):  # an operator initializes its results
            self._access(by_root, value, position).overwritten.append((0, self.sizes.bytes_of(value)))
        writes = set(effects.writes).difference(effects.reads) if isinstance(op, _OVERWRITERS) else set()
        for value in operands:
            roots = self.aliasing.roots.get(value, NO_ROOTS)
            for root in roots:
                if root not in self.aliasing.owned:
                    continue
                access = self._access(by_root, root, position)
                window = self._window(value, root)
                if value not in writes:
                    access.reads.append(window or (0, self.sizes.bytes_of(root)))
                elif window is not None and len(roots) == 1 and self._is_dense(value, window):
                    access.overwritten.append(window)
        return by_root

    def _access(self, by_root: dict[ir.Value, _Access], root: ir.Value, position: int) -> _Access:
        return by_root.setdefault(root, _Access(position))

    def _window(self, value: ir.Value, root: ir.Value) -> Span | None:
        """Bytes of the storage that a tensor spans; None if they are unknown under the hints."""
        place = self.places.get(value)
        if not ir.is_tensor(value) or place is None or place[0] != root:
            return None
        try:
            start = self.sizes.number(place[1])
            return start, start + self.sizes.number(ir.extent_bytes(value.type))
        except ExpressionError:
            return None

    def _is_dense(self, value: ir.Value, window: Span) -> bool:
        assert ir.is_tensor(value)  # it has a window
        count = self.sizes.number(ir.numel(value.type.sizes))
        return count * value.type.dtype.itemsize >= window[1] - window[0]

    def spans(self, root: ir.Value, accesses: list[_Access]) -> tuple[Span, ...]:
        """The live ranges of the content, from the accesses in order."""
        if self.aliasing.owned[root] < 0 or root in self.aliasing.escaped or root in self.fixed:
            return ((accesses[0].position, accesses[-1].position),)
        spans: list[Span] = []
        live: list[Span] = []
        end = accesses[-1].position
        for at in range(len(accesses) - 1, -1, -1):
            access = accesses[at]
            live = _joined((*_without(live, access.overwritten), *access.reads))
            if not live or not at:
                spans.append((access.position, end))
                end = accesses[at - 1].position
        return tuple(reversed(spans))

    def in_place(self, spans: dict[ir.Value, tuple[Span, ...]]) -> dict[int, int]:
        """The most bytes that each launch or matmul could save, by position."""
        begins: dict[int, set[ir.Value]] = {}
        ends: dict[int, set[ir.Value]] = {}
        for root, times in spans.items():
            if self.aliasing.owned[root] >= 0 and root not in self.fixed:
                for first, last in times:
                    begins.setdefault(first, set()).add(root)
                    ends.setdefault(last, set()).add(root)
        savings: dict[int, int] = {}
        for position in begins.keys() & ends.keys():
            op = self.function.body[position]
            pairs = self._pairs(op, begins[position], ends[position])
            if pairs:
                savings[position] = min(self._total(side) for side in zip(*pairs, strict=True))
        return savings

    def _total(self, roots: Iterable[ir.Value]) -> int:
        return sum(map(self.sizes.bytes_of, set(roots)))

    def _pairs(
        self, op: ir.Op, begun: set[ir.Value], ended: set[ir.Value]
    ) -> list[tuple[ir.Value, ir.Value]]:
        """(storage whose content begins, storage whose content ends) of each pair of arguments that may share
        bytes."""
        return [
            (new, old)
            for one, two in in_place_pairs(op, self.analyses)
            for new in self._roots(one, begun)
            for old in self._roots(two, ended)
            if new is not old and ir.device_of(new) == ir.device_of(old)
        ]

    def _roots(self, value: ir.Value, among: set[ir.Value]) -> Iterator[ir.Value]:
        return (r for r in self.aliasing.roots.get(value, NO_ROOTS) if r in among)


def in_place_pairs(op: ir.Op, analyses: Analyses) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Pairs of arguments that may share all bytes, according to the kernel or the accumulating matmul, in
    both orders."""
    match op:
        case ir.CallExtern():
            if (pair := accumulated(op)) is not None:
                yield pair
                yield pair[::-1]
        case ir.Launch():
            kernel = analyses.kernels.get(op.kernel)
            if kernel is not None and len(kernel.params) == len(op.args):
                yield from _aliasing_arguments(kernel, op)
        case _:
            pass


def _aliasing_arguments(kernel: ir.KernelDef, op: ir.Launch) -> Iterator[tuple[ir.Value, ir.Value]]:
    values = {p.name: a for p, a in zip(kernel.params, op.args, strict=True) if isinstance(a, ir.Value)}
    for param in kernel.params:
        for other in param.may_alias:
            if param.name in values and other in values:
                yield values[param.name], values[other]
                yield values[other], values[param.name]


def _joined(parts: Iterable[Span]) -> list[Span]:
    """The parts in order; adjacent ones are merged, empty ones omitted."""
    merged: list[Span] = []
    for low, high in sorted(p for p in parts if p[0] < p[1]):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged if len(merged) <= _MOST_PARTS else [(merged[0][0], merged[-1][1])]


def _without(parts: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    remaining = list(parts)
    for start, end in removed:
        remaining = [
            (low, high)
            for first, last in remaining
            for low, high in ((first, min(last, start)), (max(first, end), last))
            if low < high
        ]
    return remaining

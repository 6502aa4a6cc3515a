"""When storages hold content that is needed, and which ops could write over an argument that they are the last to read."""

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
"""The first and the last op of a time; or the first byte, and the byte after the last one."""
_OVERWRITERS = (ir.CallExtern, ir.Copy, ir.Launch)
"""Ops that write all of what they write and do not read."""
_MOST_PARTS = 64
"""A storage of which more separate parts are needed is taken to be needed from the first to the last of them."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The result of the analysis for one function; positions are indices of ops, -1 stands for the entry.

    `spans` has, for each storage that the function owns, the times in which its content is needed: each begins where nothing
    of the content before is read again, and ends at the last read. `uses` has all ops that use it. `in_place` says how many bytes at most the launch or
    matmul at a position could save by writing over arguments that it is the last to read, as `in_place_pairs` allows.
    """

    spans: dict[ir.Value, tuple[Span, ...]]
    uses: dict[ir.Value, tuple[int, ...]]
    in_place: dict[int, int]


@dataclass(slots=True)
class _Access:
    """What one op does with one storage: bytes that it reads, and bytes that it overwrites without reading."""

    position: int
    reads: list[Span] = field(default_factory=list)
    overwritten: list[Span] = field(default_factory=list)


def contents_of(function: ir.Function, analyses: Analyses, sizes: Sizes) -> Contents:
    """Runs the analysis; near linear in the number of ops. A collective needs its arguments until it was waited for."""
    found = _Contents(function, analyses, sizes)
    accesses = found.accesses()
    spans = {root: found.spans(root, of_root) for root, of_root in accesses.items()}
    uses = {root: tuple([a.position for a in of_root]) for root, of_root in accesses.items()}
    return Contents(spans, uses, found.in_place(spans))


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
        self.made: dict[int, list[ir.Value]] = {}
        """What each op makes, but for allocations; a call with a nested result makes what is unpacked later."""
        for root, position in self.aliasing.owned.items():
            if position >= 0:
                self.made.setdefault(self.aliasing.calls.get(root, position), []).append(root)

    def accesses(self) -> dict[ir.Value, list[_Access]]:
        """By storage, in order; a donated parameter may be freed before the first op."""
        found = {root: [_Access(-1)] for root, position in self.aliasing.owned.items() if position < 0}
        in_flight: dict[ir.Value, list[ir.Value]] = {}
        for position, op in enumerate(self.function.body):
            if isinstance(op, ir.Free):
                continue
            for result, held in self.aliasing.effects[position].holds:
                in_flight.setdefault(result, []).append(held)
            for root, access in self._of(op, position, in_flight).items():
                found.setdefault(root, []).append(access)
        return found

    def _of(
        self, op: ir.Op, position: int, in_flight: dict[ir.Value, list[ir.Value]]
    ) -> dict[ir.Value, _Access]:
        """What the op does, by storage that the function owns; names alone (views, allocations) do nothing."""
        found: dict[ir.Value, _Access] = {}
        if isinstance(op, ir.Allocation) and op.zero is not ir.ZeroMode.NONE:
            self._access(found, op.result, position).overwritten.append((0, self.sizes.bytes_of(op.result)))
        if isinstance(op, ir.Allocation | ir.View):
            return found
        effects = self.aliasing.effects[position]
        for value in self.made.get(position, ()):  # an operator's result comes with content
            self._access(found, value, position).overwritten.append((0, self.sizes.bytes_of(value)))
        written = set(effects.writes).difference(effects.reads) if isinstance(op, _OVERWRITERS) else set()
        used = (*ir.operands(op), *(in_flight.get(op.source, ()) if isinstance(op, ir.Wait) else ()))
        for value in used:
            roots = self.aliasing.roots.get(value, NO_ROOTS)
            for root in roots:
                if root not in self.aliasing.owned:
                    continue
                access = self._access(found, root, position)
                window = self._window(value, root)
                if value not in written:
                    access.reads.append(window or (0, self.sizes.bytes_of(root)))
                elif window is not None and len(roots) == 1 and self._is_dense(value, window):
                    access.overwritten.append(window)
        return found

    def _access(self, found: dict[ir.Value, _Access], root: ir.Value, position: int) -> _Access:
        return found.setdefault(root, _Access(position))

    def _window(self, value: ir.Value, root: ir.Value) -> Span | None:
        """Bytes of the storage that a tensor spans; None where numbers do not say."""
        place = self.places.get(value)
        if not ir.is_tensor(value) or place is None or place[0] != root:
            return None
        try:
            start = self.sizes.number(place[1])
            return start, start + self.sizes.number(ir.extent_bytes(value.type))
        except ExpressionError:
            return None

    def _is_dense(self, value: ir.Value, window: Span) -> bool:
        type = value.type
        assert isinstance(type, ir.TensorType)  # it has a window
        return self.sizes.number(ir.numel(type.sizes)) * type.dtype.itemsize >= window[1] - window[0]

    def spans(self, root: ir.Value, accesses: list[_Access]) -> tuple[Span, ...]:
        """Times in which the content is needed, from the accesses in order."""
        if self.aliasing.owned[root] < 0 or root in self.aliasing.escaped or root in self.fixed:
            return ((accesses[0].position, accesses[-1].position),)
        found: list[Span] = []
        needed: list[Span] = []
        end = accesses[-1].position
        for at in range(len(accesses) - 1, -1, -1):
            access = accesses[at]
            needed = _joined((*_without(needed, access.overwritten), *access.reads))
            if not needed or not at:
                found.append((access.position, end))
                end = accesses[at - 1].position
        return tuple(reversed(found))

    def in_place(self, spans: dict[ir.Value, tuple[Span, ...]]) -> dict[int, int]:
        """The most bytes that launches could save, by position."""
        begins: dict[int, set[ir.Value]] = {}
        ends: dict[int, set[ir.Value]] = {}
        for root, times in spans.items():
            if self.aliasing.owned[root] >= 0 and root not in self.fixed:
                for first, last in times:
                    begins.setdefault(first, set()).add(root)
                    ends.setdefault(last, set()).add(root)
        found: dict[int, int] = {}
        for position in begins.keys() & ends.keys():
            op = self.function.body[position]
            pairs = self._pairs(op, begins[position], ends[position])
            if pairs:
                found[position] = min(self._total(side) for side in zip(*pairs, strict=True))
        return found

    def _total(self, roots: Iterable[ir.Value]) -> int:
        return sum(map(self.sizes.bytes_of, set(roots)))

    def _pairs(
        self, op: ir.Op, begun: set[ir.Value], ended: set[ir.Value]
    ) -> list[tuple[ir.Value, ir.Value]]:
        """(storage whose content begins, storage whose content ends) for each pair of arguments that may share bytes."""
        return [
            (new, old)
            for one, two in in_place_pairs(op, self.analyses)
            for new in self._roots(one, begun)
            for old in self._roots(two, ended)
            if new is not old and _device(new) == _device(old)
        ]

    def _roots(self, value: ir.Value, among: set[ir.Value]) -> Iterator[ir.Value]:
        return (r for r in self.aliasing.roots.get(value, NO_ROOTS) if r in among)


def in_place_pairs(op: ir.Op, analyses: Analyses) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Arguments that may be the same bytes, as the kernel says, or the accumulating matmul: each pair in both orders."""
    if isinstance(op, ir.CallExtern) and (pair := accumulated(op)) is not None:
        yield pair
        yield pair[::-1]
    if not isinstance(op, ir.Launch):
        return
    kernel = analyses.kernels.get(op.kernel)
    if kernel is None or len(kernel.params) != len(op.args):
        return
    given = {p.name: a for p, a in zip(kernel.params, op.args, strict=True) if isinstance(a, ir.Value)}
    for param in kernel.params:
        for other in param.may_alias:
            if param.name in given and other in given:
                yield given[param.name], given[other]
                yield given[other], given[param.name]


def _device(root: ir.Value) -> ir.Device | None:
    return root.type.device if isinstance(root.type, ir.StorageType | ir.TensorType) else None


def _joined(parts: Iterable[Span]) -> list[Span]:
    """The parts in order, those that touch joined; parts of no bytes are none."""
    found: list[Span] = []
    for low, high in sorted(p for p in parts if p[0] < p[1]):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found if len(found) <= _MOST_PARTS else [(found[0][0], found[-1][1])]


def _without(parts: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    left = list(parts)
    for start, end in removed:
        left = [
            (low, high)
            for first, last in left
            for low, high in ((first, min(last, start)), (max(first, end), last))
            if low < high
        ]
    return left

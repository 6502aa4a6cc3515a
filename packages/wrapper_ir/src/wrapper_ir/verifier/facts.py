"""Facts about one function that checks share, and the interface of a check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import Aliasing
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, prove_eq
from wrapper_ir.verifier.findings import Findings
from wrapper_ir.verifier.obligations import Claim, Obligation, Obligations, Size, Verdict
from wrapper_ir.verifier.proofs import Proofs
from wrapper_ir.verifier.scan import Scanned
from wrapper_ir.verifier.typeinfo import TypeInfo, TypeTable

Handler = Callable[..., None]
"""Called with the position of an op and the op, which has the class of the handler's key."""
Handlers = Mapping[type[ir.OpBase], Handler]

RootOffset = tuple[ir.Value, Size]
"""A root, and the byte offset of a tensor's first element in it (for a tensor root, from its first
element)."""


@dataclass(slots=True)
class Shared:
    """State that the checks of all functions share. `launched` are the extents of launches, by kernel and
    numeric arguments; `trusted` are the symbols that the caller guards."""

    analyses: Analyses
    findings: Findings
    types: TypeTable = field(default_factory=TypeTable)
    obligations: Obligations = field(default_factory=Obligations)
    launched: dict[tuple[object, ...], tuple[Expr, ...]] = field(default_factory=dict)
    trusted: frozenset[str] = frozenset()


class FunctionFacts:
    """Facts about one function. `scanned`, `results`, `special` and `classes` are filled before the first
    stage, `aliasing` before the second, `places` while it runs."""

    def __init__(self, function: ir.Function, shared: Shared) -> None:
        self.function = function
        self.analyses = shared.analyses
        self.types = shared.types
        self.is_main = function is shared.analyses.program.functions[0]
        trusted = shared.trusted if self.is_main else frozenset()
        self.proofs = Proofs(shared.analyses, shared.obligations, trusted)
        self.scanned: list[Scanned] = []
        self.results: list[list[ir.Value]] = []
        self.special: dict[int, list[tuple[ir.Value, TypeInfo]]] = {}
        """By position, the results whose types contain symbols or are invalid by themselves."""
        self.wrong: list[tuple[int, ir.Value]] = []
        """The results whose types are invalid by themselves, with their positions."""
        self.classes: set[type[ir.OpBase]] = set()
        """Classes of ops that occur."""
        self.symbolic = False
        """True if an op contains an expression that is not a constant, or has a result in `special`."""
        self.asynchronous = False
        """True if an op uses another stream than the current one, or does not block."""
        self.positions: dict[str, int] = {}
        """Position of each name's definition; -1 for parameters."""
        self.aliasing: Aliasing
        self.places: dict[str, RootOffset] = {}
        self.launched = shared.launched
        self._findings = shared.findings
        self._obligations = shared.obligations

    def report(self, code: str, message: str, position: int = -1) -> None:
        """Records a finding in this function."""
        self._findings.add(code, message, self.function, position)

    def place(self, value: ir.Value) -> RootOffset:
        """The root and byte offset of a tensor. A tensor that is not a view, or may alias, counts as a
        root."""
        place = self.places.get(value.name)
        return (value, 0) if place is None else place

    def capacity(self, root: ir.Value) -> Size:
        """Bytes from the start of a root to its end."""
        return self.types(root.type).extent

    def within(self, root: ir.Value, first: Size, need: Size) -> tuple[tuple[tuple[Size, Size], ...], ...]:
        """The alternatives of a claim that `need` bytes from `first` on are inside a root."""
        inside: tuple[tuple[Size, Size], ...] = ((0, first), (first + need, self.capacity(root)))
        if ir.is_tensor(root) and not _is_dense(root.type):
            inside += tuple((1, n) for n in sizes_of(root))  # an empty view reads no bytes
        return (inside,)

    def require(self, claim: Claim, code: str, message: Callable[[], str], position: int) -> bool:
        """Reports a disproved claim, and adds an obligation for an open one. Returns False if it is
        disproved."""
        decided = self.proofs.decide(claim)
        self._settle(decided, code, message, position)
        return decided[0] is not Verdict.DISPROVED

    def require_multiple(
        self,
        divisor: int,
        size: Size,
        code: str,
        message: Callable[[], str],
        position: int,
        unless: tuple[Expr, ...] = (),
    ) -> None:
        """Like `require`, for the claim that `size` is a multiple of `divisor`, or that one of `unless` is
        0."""
        self._settle(self.proofs.multiple(divisor, size, unless), code, message, position)

    def _settle(
        self, decided: tuple[Verdict, Expr], code: str, message: Callable[[], str], position: int
    ) -> None:
        verdict, condition = decided
        if verdict is Verdict.DISPROVED:
            self.report(code, message(), position)
        elif verdict is Verdict.OPEN:
            obligation = Obligation(self.function.name, position, condition, message(), code)
            self._obligations.found.append(obligation)

    def require_apart(
        self,
        a: ir.Value,
        b: ir.Value,
        code: str,
        message: Callable[[], str],
        position: int,
        *,
        or_same_start: bool = False,
    ) -> None:
        """Requires that two tensors that may share a storage share no bytes, or, if `or_same_start`, that
        both start at the same byte."""
        (root_a, start_a), (root_b, start_b) = self.place(a), self.place(b)
        if root_a != root_b:
            self.report(code, message(), position)
            return
        size_a, size_b = self.types(a.type).extent, self.types(b.type).extent
        if size_a == 0 or size_b == 0:
            return
        if or_same_start and start_a == start_b:
            return
        either = (
            ((start_a + size_a, start_b),),
            ((start_b + size_b, start_a),),
            *([((start_a, start_b), (start_b, start_a))] if or_same_start else []),
        )
        self.require(Claim(either, (*sizes_of(a), *sizes_of(b))), code, message, position)

    def same_window(self, a: ir.Value, b: ir.Value) -> bool:
        """Returns whether two tensors of one storage are the same elements in the same order."""
        if not ir.is_tensor(a) or not ir.is_tensor(b):
            return False
        x, y = ((v.type.dtype, v.type.sizes, v.type.strides) for v in (a, b))
        return x == y and self.place(a) == self.place(b)


def _is_dense(type: ir.TensorType) -> bool:
    """Returns whether the extent of the layout equals the number of elements, so that it also holds for empty
    tensors."""
    return ir.is_contiguous(type.sizes, type.strides) or prove_eq(
        ir.extent_elements(type.sizes, type.strides), ir.numel(type.sizes)
    )


def sizes_of(value: ir.Value) -> tuple[Expr, ...]:
    """The sizes of a tensor that may be 0; none for other values."""
    if not ir.is_tensor(value):
        return ()
    return tuple([n for n in value.type.sizes if n.integer is None or n.integer <= 0])


class Check:
    """A check of one function: handlers by op class, a handler of every op, and a final step."""

    def __init__(self, facts: FunctionFacts) -> None:
        self.facts = facts
        self.report = facts.report

    def handlers(self) -> Handlers:
        """Handlers by op class."""
        return {}

    def every(self) -> Handler | None:
        """A handler of all ops, called before those by class."""
        return None

    def finish(self) -> None:
        """Called after the last op."""

"""What the checks share about one function, and the interface of a check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from wrapper_ir.aliasing import Aliasing
from wrapper_ir.expr import Expr
from wrapper_ir.index import ProgramIndex
from wrapper_ir.ops import OpBase
from wrapper_ir.program import Function
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value
from wrapper_ir.verifier.findings import Findings
from wrapper_ir.verifier.proofs import Proofs, Size
from wrapper_ir.verifier.scan import Scanned
from wrapper_ir.verifier.typeinfo import TypeInfo, TypeTable

__all__ = ["Check", "FunctionFacts", "Handler", "Handlers", "Place"]

Handler = Callable[..., None]
"""Called with the op's position and the op; the op's class is the key under which the handler stands."""
Handlers = Mapping[type[OpBase], Handler]

Place = tuple[Value, Size]
"""A root and the byte offset of a tensor's first element in it (for a tensor root: from the root's own)."""


class FunctionFacts:
    """Facts about one function. `scanned`, `results`, `special` and `classes` are filled before the first stage, `aliasing` before the
    second, `places` while it runs."""

    def __init__(
        self,
        function: Function,
        index: ProgramIndex,
        findings: Findings,
        types: TypeTable,
        launched: dict[tuple[object, ...], tuple[Expr, ...]] | None = None,
    ) -> None:
        self.function = function
        self.index = index
        self.types = types
        self.proofs = Proofs(index)
        self.scanned: list[Scanned] = []
        self.results: list[list[Value]] = []
        self.special: dict[int, list[tuple[Value, TypeInfo]]] = {}
        """By position, the results whose types hold symbols, or are wrong by themselves."""
        self.classes: set[type[OpBase]] = set()
        """Classes of ops that occur."""
        self.asynchronous = False
        """Whether any op runs on another stream than the current one, or does not wait for its end."""
        self.positions: dict[str, int] = {}
        """Position of each name's definition; -1 for parameters."""
        self.aliasing: Aliasing
        self.places: dict[str, Place] = {}
        self.launched = {} if launched is None else launched
        """For all functions together: the extents stated for a kernel and the numbers given to it."""
        self._findings = findings

    def report(self, code: str, message: str, position: int = -1) -> None:
        """Records a finding in this function."""
        self._findings.add(code, message, self.function, position)

    def place(self, value: Value) -> Place:
        """Where a tensor starts; one that is no view of anything, or may alias, is a root of its own here."""
        found = self.places.get(value.name)
        return (value, 0) if found is None else found

    def capacity(self, root: Value) -> Size:
        """Bytes from the start of a root to its end."""
        return self.types(root.type).extent

    def overlap(self, a: Value, b: Value) -> bool:
        """Whether two tensors of one storage may share bytes."""
        (root_a, start_a), (root_b, start_b) = self.place(a), self.place(b)
        if root_a != root_b:
            return True
        size_a, size_b = self.types(a.type).extent, self.types(b.type).extent
        if size_a == 0 or size_b == 0:
            return False
        le = self.proofs.le
        return not (le(_plus(start_a, size_a), start_b) or le(_plus(start_b, size_b), start_a))

    def same_window(self, a: Value, b: Value) -> bool:
        """Whether two tensors of one storage are the same elements in the same order."""
        if not isinstance(a.type, TensorType) or not isinstance(b.type, TensorType):
            return False
        x, y = a.type, b.type
        return self.place(a) == self.place(b) and (x.dtype, x.sizes, x.strides) == (
            y.dtype,
            y.sizes,
            y.strides,
        )


def _plus(a: Size, b: Size) -> Size:
    return a + b


class Check:
    """A check of one function: handlers by op class, one for every op, and a last word."""

    name: ClassVar[str]

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

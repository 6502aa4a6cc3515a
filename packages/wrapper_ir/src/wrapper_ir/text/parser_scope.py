"""Reads what all ops share: results, references, streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from wrapper_ir.kernels import KernelNames, KernelParam
from wrapper_ir.ops import OPS, UNKNOWN, OpSet, Provenance
from wrapper_ir.text.parser_types import TypeParser
from wrapper_ir.tokens import Source
from wrapper_ir.types import Type
from wrapper_ir.values import Value

__all__ = ["OpParser"]

TypeT = TypeVar("TypeT", bound=Type)


class OpParser(TypeParser):
    """A type parser that reads the ops of one function body at a time."""

    def __init__(self, source: Source, types: Mapping[str, Callable[[Any], Type]], ops: OpSet = OPS) -> None:
        super().__init__(source, types)
        self.ops = ops
        self.prov: Provenance = UNKNOWN
        self._results: list[str] = []
        self._start = 0

    def start_op(self, prov: Provenance) -> None:
        """Reads the names of the results of the line that starts here, which gets the provenance `prov`."""
        self.prov = prov
        self._start = self.at
        self._results = []
        mark = self.tokens[self.at]
        if mark[:1] == "%":
            if self.tokens[self.at + 1] == "=" and mark[1:2] not in ('"', ""):  # most lines
                self._results.append(mark[1:])
                self.at += 2
            else:
                self._read_results()

    def _read_results(self) -> None:
        while True:
            self._results.append(self.sigil("%", "a value such as %x"))
            if not self.accept(","):
                break
        self.expect("=")

    def result_mark(self) -> None:
        """Reads the name of the one result of a record, wherever it stands."""
        self._start = self.at
        self._results = [self.sigil("%", "a value such as %x")]

    def no_result(self) -> None:
        """Checks that the line names no result."""
        if self._results:
            self.fail("WIR505", "this op has no result", self._start)

    def result(self, type: Type) -> Value:
        """Defines the one result of the line."""
        if len(self._results) != 1:
            self.fail("WIR505", f"{len(self._results)} results are named, but there are 1", self._start)
        return self.define(self._results[0], type, self._start)

    def results(self, types: Sequence[Type]) -> tuple[Value, ...]:
        """Defines all results of the line."""
        if len(types) != len(self._results):
            self.fail(
                "WIR505", f"{len(self._results)} results are named, but there are {len(types)}", self._start
            )
        return tuple(
            self.define(name, type, self._start + 2 * n)
            for n, (name, type) in enumerate(zip(self._results, types, strict=True))
        )

    def define(self, name: str, type: TypeT, index: int) -> Value[TypeT]:
        """A new value in scope; a second one of the same name is WIR506."""
        if name in self.values:
            self.fail("WIR506", f"value {self.tokens[index]} is defined twice", index)
        value = Value(name, type)
        self.values[name] = value
        return value

    @property
    def wanted(self) -> int:
        """How many results the line names."""
        return len(self._results)

    @property
    def result_name(self) -> str:
        """The name of the one result of the line."""
        if len(self._results) != 1:
            self.fail("WIR505", f"{len(self._results)} results are named, but there are 1", self._start)
        return self._results[0]

    def reference(self) -> str:
        """`@name`."""
        return self.sigil("@", "a name such as @f")

    def target(self) -> str:
        """An operator's name."""
        return self.name("an operator such as aten::add")

    def symbol(self) -> str:
        """A declared symbol."""
        start = self.at
        symbol = self.name("a symbol")
        if symbol not in self.symbols:
            self.fail(
                "WIR551", f"symbol {symbol} is not declared", start, hint="declare it, or check its name"
            )
        return symbol

    def own_names(self, read: Callable[[OpParser], Any]) -> Any:  # Any: a kernel or a parameter of one
        """What `read` makes; its expressions are over a kernel's own names."""
        outer = self.kinds, self._simple, self.values
        self.kinds, self._simple, self.values = KernelNames(), {}, {}
        made = read(self)
        self.kinds, self._simple, self.values = outer
        if type(made) is KernelParam:
            self.kinds.update(KernelNames((made,)))
        return made

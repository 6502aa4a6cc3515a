"""Evaluates symbolic sizes under hints, and under the program's definitions that follow from them."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Number, evaluate
from wrapper_ir.expr.rewrite import map_atoms


def declared_size(atom: Expr) -> Expr:
    """The size or stride in the value's type for a `SizeOf` or `StrideOf`; other atoms are returned
    unchanged."""
    match atom:
        case ir.SizeOf(value) if ir.is_tensor(value) and 0 <= atom.dim < len(value.type.sizes):
            return value.type.sizes[atom.dim]
        case ir.StrideOf(value) if ir.is_tensor(value) and 0 <= atom.dim < len(value.type.strides):
            return value.type.strides[atom.dim]
        case _:
            return atom


class Sizes:
    """Evaluates sizes under one assignment of the symbols.

    `hints` take precedence over the hints of declarations. A symbol with neither has the value of its
    definition, or else its lower bound (0 if it has none).
    """

    def __init__(self, program: ir.Program, hints: Mapping[str, int] | None = None) -> None:
        self.assumed: set[str] = set()
        """Symbols that have their lower bound only."""
        self._env: dict[str, Number] = {s.name: s.hint for s in program.symbols if s.hint is not None}
        self._env.update(hints or {})
        for op in program.ops_of(ir.Define):
            if op.symbol not in self._env:
                self._define(op)
        for symbol in program.symbols:
            if symbol.name not in self._env:
                self.assumed.add(symbol.name)
                self._env[symbol.name] = symbol.lower or 0

    def _define(self, op: ir.Define) -> None:
        try:
            self._env[op.symbol] = evaluate(map_atoms(op.expr, declared_size), self._env)
        except ExpressionError:
            return  # read from memory when the program runs

    def number(self, e: Expr) -> int:
        """The value of an int expression."""
        return int(self.value(e))

    def value(self, e: Expr) -> Number:
        """The value of an expression; raises ExpressionError if it reads memory."""
        return evaluate(map_atoms(e, declared_size), self._env)

    def bytes_of(self, value: ir.Value) -> int:
        """Bytes of a storage or of the span of a tensor; 0 for other values."""
        if ir.is_storage(value):
            return self.number(value.type.nbytes)
        return self.number(ir.extent_bytes(value.type)) if ir.is_tensor(value) else 0

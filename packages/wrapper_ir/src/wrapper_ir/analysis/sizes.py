"""Numbers for symbolic sizes: hints, and what follows from them by the program's own definitions."""

from __future__ import annotations

from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Number, evaluate
from wrapper_ir.expr.rewrite import map_atoms


def declared_size(atom: Expr) -> Expr:
    """The size or stride that the value's type tells, for atoms that ask for one; other atoms as they are."""
    if isinstance(atom, ir.SizeOf | ir.StrideOf) and ir.is_tensor(atom.value):
        dims = atom.value.type.sizes if isinstance(atom, ir.SizeOf) else atom.value.type.strides
        if 0 <= atom.dim < len(dims):
            return dims[atom.dim]
    return atom


class Sizes:
    """Bytes of values under one assignment of the symbols. `given` comes before the hints of declarations; a symbol
    with neither gets the value of its definition, or else its lower bound (0 where there is none)."""

    def __init__(self, program: ir.Program, given: Mapping[str, int] | None = None) -> None:
        self.assumed: set[str] = set()
        """Symbols for which nothing was known."""
        self._env: dict[str, Number] = {s.name: s.hint for s in program.symbols if s.hint is not None}
        self._env.update(given or {})
        for op in program.ops:
            if isinstance(op, ir.Define) and op.symbol not in self._env:
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
        """The value of an expression; raises ExpressionError where it reads memory."""
        return evaluate(map_atoms(e, declared_size), self._env)

    def bytes_of(self, value: ir.Value) -> int:
        """Bytes of a storage, or that a tensor spans; 0 for other values."""
        if ir.is_storage(value):
            return self.number(value.type.nbytes)
        return self.number(ir.extent_bytes(value.type)) if ir.is_tensor(value) else 0

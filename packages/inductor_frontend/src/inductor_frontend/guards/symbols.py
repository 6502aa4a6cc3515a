"""Symbols: declared with their ranges and hints, defined from the inputs, or where upstream computes them."""

from __future__ import annotations

import sympy
import torch
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_frontend.convert import to_expr
from inductor_frontend.errors import ConversionError
from inductor_frontend.record.graph import RecordingGraph
from inductor_frontend.torch_patches._compat import symbol_hint, symbol_range
from wrapper_ir.builder import FunctionBuilder
from wrapper_ir.expr import Expr, Sym, SymKind
from wrapper_ir.program import SymbolDef

__all__ = ["Symbols"]

_FLOAT_TYPES = (SymT.FLOAT, SymT.UNBACKED_FLOAT)
_UNBACKED_TYPES = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)


def _is(symbol: sympy.Symbol, types: tuple[SymT, ...]) -> bool:
    try:
        return bool(symbol_is_type(symbol, types))
    except AssertionError:  # names that upstream made up outside its own scheme
        return False


class Symbols:
    """Declares symbols in the program and defines them in one function, each once.

    `outer` are those of the calling function: what only the caller can define is captured from there."""

    def __init__(
        self,
        graph: RecordingGraph,
        function: FunctionBuilder,
        outer: Symbols | None = None,
        *,
        empty_sizes: bool = False,
    ) -> None:
        self._graph = graph
        self._function = function
        self._outer = outer
        self._least = 0 if empty_sizes else 1
        self._shape_env = graph.sizevars.shape_env
        self._defined: dict[str, sympy.Symbol] = {}
        self._exprs: dict[object, Expr] = {}
        self._offers: dict[str, tuple[sympy.Symbol, Expr]] = {}
        self.asserted: set[object] = set()
        """What this function has checked already."""

    # --- declaring

    def declare(self, symbol: sympy.Symbol) -> SymbolDef:
        """Declares a symbol with what upstream knows about it."""
        lower, upper = symbol_range(self._shape_env, symbol)
        backed = not _is(symbol, _UNBACKED_TYPES)
        if backed and symbol.is_positive:  # what sympy simplified on the way relies on it
            lower = max(lower or 0, self._least)
        definition = SymbolDef(
            name=symbol.name,
            kind=SymKind.FLOAT if _is(symbol, _FLOAT_TYPES) else SymKind.INT,
            backed=backed,
            lower=lower,
            upper=upper,
            hint=symbol_hint(self._shape_env, symbol),
        )
        return self._function.program.symbol(definition)

    def define(self, symbol: sympy.Symbol, expr: Expr) -> None:
        """Declares and defines a symbol, unless that was done before."""
        if symbol.name not in self._defined:
            self._defined[symbol.name] = symbol
            self.declare(symbol)
            self._function.define(symbol.name, expr)

    def define_own(self, definition: SymbolDef, expr: Expr) -> Expr:
        """Declares and defines a symbol that upstream does not have."""
        self._defined[definition.name] = sympy.Symbol(definition.name)
        self._function.program.symbol(definition)
        self._function.define(definition.name, expr)
        return Sym(definition.name, definition.kind)

    def offer(self, symbol: sympy.Symbol, expr: Expr) -> None:
        """As `define`, but only if the symbol is used."""
        self._offers.setdefault(symbol.name, (symbol, expr))

    def known(self, name: str) -> sympy.Symbol | None:
        """A symbol that is defined by now, by its name."""
        return self._defined.get(name)

    def all_defined(self) -> tuple[sympy.Symbol, ...]:
        """The symbols that are defined by now, in their order."""
        return tuple(self._defined.values())

    # --- using

    def expr(self, value: object) -> Expr:
        """Converts a size; symbols that upstream replaced by others are defined on the way. Raises FE304."""
        if type(value) is int:
            return to_expr(value)
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            value = value.node.expr  # these compare, and hash, by guarding
        found = self._exprs.get(value)
        if found is None:
            found = to_expr(self.same(value))
            for name in sorted(found.free_symbols):
                self.require(name)
            self._exprs[value] = found
        return found

    def same(self, value: object) -> object:
        """A size where symbols of inputs that upstream has replaced by others are replaced: sizes that it knows to be
        equal shall be the same expression."""
        while isinstance(value, sympy.Expr):
            replaced = value.xreplace(
                {s: r for s in value.free_symbols if (r := self._replacement(s)) is not None}
            )
            if replaced == value:
                break
            value = replaced
        return value

    def _replacement(self, symbol: sympy.Basic) -> sympy.Expr | None:
        if not isinstance(symbol, sympy.Symbol) or not symbol.is_integer or _is(symbol, _UNBACKED_TYPES):
            return None  # values of the run are checked where they are defined
        return self._shape_env.replacements.get(symbol)

    def require(self, name: str) -> None:
        """Defines a symbol that upstream replaced by others, or takes it from the caller; raises FE304."""
        if name in self._defined:
            return
        for precomputed, expr in self._graph.sizevars.inv_precomputed_replacements.items():
            if precomputed.name == name:
                self.define(precomputed, self.expr(expr))
                return
        if self.capture(name):
            return
        if name in self._offers:
            self.define(*self._offers[name])
            return
        for source, target in self._shape_env.replacements.items():
            if source.name == name:
                self.define(source, self.expr(target))
                return
        raise ConversionError("FE304", f"symbol {name} is used, but no input or op defines it")

    def provide(self, name: str) -> bool:
        """Whether a callee can capture this symbol from here; it is defined here then."""
        try:
            self.require(name)
        except ConversionError:
            return False
        return True

    def capture(self, name: str) -> bool:
        """Takes a symbol from the caller, unless it is known here; False where the caller does not have it.
        Precomputed sizes are each graph's own, and not taken."""
        if name in self._defined:
            return True
        if self._outer is None or not self._outer.provide(name):
            return False
        self._defined[name] = self._outer._defined[name]
        self._function.capture(name)
        return True

    def sym(self, symbol: sympy.Symbol) -> Expr:
        """The expression node of a symbol."""
        return Sym(symbol.name, SymKind.FLOAT if _is(symbol, _FLOAT_TYPES) else SymKind.INT)

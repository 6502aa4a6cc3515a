"""Symbols: declared with their ranges and hints, defined from the inputs, or where Inductor computes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import sympy
import torch
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_frontend.convert import to_expr
from inductor_frontend.errors import ConversionError
from inductor_frontend.record.graph import RecordingGraph
from inductor_frontend.torch_patches.symbol_facts import symbol_hint, symbol_range
from wrapper_ir import ir
from wrapper_ir.builder import FunctionBuilder
from wrapper_ir.expr import Expr, Sym, SymKind

_FLOAT_TYPES = (SymT.FLOAT, SymT.UNBACKED_FLOAT)
_UNBACKED_TYPES = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)


def _is(symbol: sympy.Symbol, types: tuple[SymT, ...]) -> bool:
    try:
        return bool(symbol_is_type(symbol, types))
    except AssertionError:  # names that Inductor made up outside its own scheme
        return False


def _kind(symbol: sympy.Symbol) -> SymKind:
    return SymKind.FLOAT if _is(symbol, _FLOAT_TYPES) else SymKind.INT


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
        self._exprs: dict[sympy.Basic, Expr] = {}
        self._if_used: dict[str, tuple[sympy.Symbol, Expr]] = {}

    @property
    def defined(self) -> Mapping[str, sympy.Symbol]:
        """The symbols that are defined by now, by name, in their order."""
        return MappingProxyType(self._defined)

    def declare(self, symbol: sympy.Symbol) -> ir.SymbolDef:
        """Declares a symbol with what Inductor knows about it."""
        lower, upper = symbol_range(self._shape_env, symbol)
        backed = not _is(symbol, _UNBACKED_TYPES)
        if backed and symbol.is_positive:  # what sympy simplified on the way relies on it
            lower = max(lower or 0, self._least)
        definition = ir.SymbolDef(
            name=symbol.name,
            kind=_kind(symbol),
            backed=backed,
            lower=lower,
            upper=upper,
            hint=symbol_hint(self._shape_env, symbol),
        )
        return self._function.program.symbol(definition)

    def define(self, symbol: sympy.Symbol | ir.SymbolDef, expr: Expr, *, if_used: bool = False) -> Expr:
        """Declares and defines a symbol, unless that was done before: one of Inductor's, or one that it does not have, by
        its definition. `if_used` waits until the symbol is required. Returns the symbol."""
        name = symbol.name
        kind = symbol.kind if isinstance(symbol, ir.SymbolDef) else _kind(symbol)
        if if_used and isinstance(symbol, sympy.Symbol):
            self._if_used.setdefault(name, (symbol, expr))
        elif name not in self._defined:
            if isinstance(symbol, ir.SymbolDef):
                self._defined[name] = sympy.Symbol(name)
                self._function.program.symbol(symbol)
            else:
                self._defined[name] = symbol
                self.declare(symbol)
            self._function.define(name, expr)
        return Sym(name, kind)

    def expr(self, value: object) -> Expr:
        """Converts a size; symbols that Inductor replaced by others are defined on the way. Raises FE304."""
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            value = value.node.expr  # these compare, and hash, by guarding
        if not isinstance(value, sympy.Basic):  # 1, 1.0 and True would be one key
            return to_expr(value)
        found = self._exprs.get(value)
        if found is None:
            found = to_expr(self.canonical(value))
            for name in sorted(found.free_symbols):
                self.require(name)
            self._exprs[value] = found
        return found

    def canonical(self, value: object) -> object:
        """A size in which symbols of inputs that Inductor has replaced by others are replaced: sizes that it knows to be
        equal are the same expression."""
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
        """Defines a symbol that was waiting for its use or that Inductor replaced by others, or captures it; raises FE304."""
        if name in self._defined or self._define_precomputed(name) or self.capture(name):
            return
        if name in self._if_used:
            self.define(*self._if_used[name])
        elif (source := self._replaced(name)) is not None:
            self.define(source, self.expr(self._shape_env.replacements[source]))
        else:
            raise ConversionError("FE304", f"symbol {name} is used, but no input or op defines it")

    def capture(self, name: str) -> bool:
        """Takes a symbol from the caller, which defines it if it can, unless it is defined here; False where the caller
        does not have it. Precomputed sizes are each graph's own, and not taken."""
        if name in self._defined:
            return True
        if self._outer is None:
            return False
        try:
            self._outer.require(name)
        except ConversionError:
            return False
        self._defined[name] = self._outer.defined[name]
        self._function.capture(name)
        return True

    def _define_precomputed(self, name: str) -> bool:
        for precomputed, expr in self._graph.sizevars.inv_precomputed_replacements.items():
            if precomputed.name == name:
                self.define(precomputed, self.expr(expr))
                return True
        return False

    def _replaced(self, name: str) -> sympy.Symbol | None:
        """The symbol of this name that Inductor has replaced by something else; None for others."""
        return next((source for source in self._shape_env.replacements if source.name == name), None)

"""Symbols: declared with ranges and hints, defined from the inputs or by the ops that compute them."""

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
    except AssertionError:  # a name that does not follow Inductor's scheme
        return False


def _kind(symbol: sympy.Symbol) -> SymKind:
    return SymKind.FLOAT if _is(symbol, _FLOAT_TYPES) else SymKind.INT


class Symbols:
    """Declares symbols in the program and defines them in one function, each once.

    `outer` are the symbols of the calling function: symbols that only the caller can define are captured from
    it.
    """

    def __init__(
        self, graph: RecordingGraph, function: FunctionBuilder, outer: Symbols | None = None
    ) -> None:
        self._graph = graph
        self._function = function
        self._outer = outer
        self._shape_env = graph.sizevars.shape_env
        self._defined: dict[str, sympy.Symbol] = {}
        self._exprs: dict[sympy.Basic, Expr] = {}
        self._if_used: dict[str, tuple[sympy.Symbol, Expr]] = {}

    @property
    def defined(self) -> Mapping[str, sympy.Symbol]:
        """The defined symbols, by name, in the order of definition."""
        return MappingProxyType(self._defined)

    def declare(self, symbol: sympy.Symbol) -> ir.SymbolDef:
        """Declares a symbol with Inductor's range and hint."""
        lower, upper = symbol_range(self._shape_env, symbol)
        backed = not _is(symbol, _UNBACKED_TYPES)
        if self.is_assumed_positive(symbol):
            lower = 1
        definition = ir.SymbolDef(
            name=symbol.name,
            kind=_kind(symbol),
            backed=backed,
            lower=lower,
            upper=upper,
            hint=symbol_hint(self._shape_env, symbol),
        )
        return self._function.program.symbol(definition)

    def is_assumed_positive(self, symbol: sympy.Symbol) -> bool:
        """Returns whether sympy takes a symbol for positive whose range has 0: simplifications rely on it."""
        lower, _ = symbol_range(self._shape_env, symbol)
        return bool(symbol.is_positive) and not _is(symbol, _UNBACKED_TYPES) and (lower or 0) < 1

    def define(self, symbol: sympy.Symbol | ir.SymbolDef, expr: Expr, *, if_used: bool = False) -> Expr:
        """Declares and defines a symbol unless it is defined; returns it.

        `symbol` is a symbol of Inductor, or the definition of a new one. `if_used` defers the definition
        until the symbol is required.
        """
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
        """Converts a size, and defines the symbols in it. Raises ConversionError FE304."""
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            value = value.node.expr  # comparing or hashing these adds guards
        if not isinstance(value, sympy.Basic):  # 1, 1.0 and True are equal keys
            return to_expr(value)
        converted = self._exprs.get(value)
        if converted is None:
            converted = to_expr(self.canonical(value))
            for name in sorted(converted.free_symbols):
                self.require(name)
            self._exprs[value] = converted
        return converted

    def canonical(self, value: object) -> object:
        """Applies Inductor's replacements of input symbols to a size, so that equal sizes are the same
        expression."""
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
            return None  # unbacked symbols are checked at their definition
        return self._shape_env.replacements.get(symbol)

    def require(self, name: str) -> None:
        """Defines a symbol whose definition is deferred or that Inductor replaced, or captures it from the
        caller.

        Raises ConversionError FE304 if nothing defines it.
        """
        if name in self._defined or self._define_precomputed(name) or self.capture(name):
            return
        if name in self._if_used:
            self.define(*self._if_used[name])
        elif (source := self._replaced(name)) is not None:
            self.define(source, self.expr(self._shape_env.replacements[source]))
        else:
            raise ConversionError("FE304", f"symbol {name} is used, but no input or op defines it")

    def capture(self, name: str) -> bool:
        """Captures a symbol from the caller, which defines it if possible, unless it is defined here.

        Returns whether the symbol is defined. Precomputed sizes belong to one graph and are not captured.
        """
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
        """Returns the symbol of this name if Inductor has replaced it; otherwise None."""
        return next((source for source in self._shape_env.replacements if source.name == name), None)

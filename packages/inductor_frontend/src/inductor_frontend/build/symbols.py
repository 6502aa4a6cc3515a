"""Symbols: declared with their ranges and hints, defined from the inputs, or where upstream computes them."""

from __future__ import annotations

import sympy
from torch._inductor import ir
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_frontend._compat import symbol_hint, symbol_range
from inductor_frontend.convert import to_expr
from inductor_frontend.errors import ConversionError
from inductor_frontend.hooks import RecordingGraph
from wrapper_ir.builder import FunctionBuilder
from wrapper_ir.expr import Expr, Item, SizeOf, StrideOf, Sym, SymKind
from wrapper_ir.ops import AssertLayout, Provenance
from wrapper_ir.program import SymbolDef
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

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
        self, graph: RecordingGraph, function: FunctionBuilder, outer: Symbols | None = None
    ) -> None:
        self._graph = graph
        self._function = function
        self._outer = outer
        self._shape_env = graph.sizevars.shape_env
        self._defined: dict[str, sympy.Symbol] = {}
        self._exprs: dict[object, Expr] = {}

    # --- declaring

    def declare(self, symbol: sympy.Symbol) -> SymbolDef:
        """Declares a symbol with what upstream knows about it."""
        lower, upper = symbol_range(self._shape_env, symbol)
        definition = SymbolDef(
            name=symbol.name,
            kind=SymKind.FLOAT if _is(symbol, _FLOAT_TYPES) else SymKind.INT,
            backed=not _is(symbol, _UNBACKED_TYPES),
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

    def known(self, name: str) -> sympy.Symbol | None:
        """A symbol that is defined by now, by its name."""
        return self._defined.get(name)

    # --- using

    def expr(self, value: object) -> Expr:
        """Converts a size; symbols that upstream replaced by others are defined on the way. Raises FE304."""
        if type(value) is int:
            return to_expr(value)
        found = self._exprs.get(value)
        if found is None:
            found = to_expr(value)
            for name in sorted(found.free_symbols):
                self._require(name)
            self._exprs[value] = found
        return found

    def _require(self, name: str) -> None:
        if name in self._defined:
            return
        for precomputed, expr in self._graph.sizevars.inv_precomputed_replacements.items():
            if precomputed.name == name:
                self.define(precomputed, self.expr(expr))
                return
        if self._capture(name):
            return
        for source, target in self._shape_env.replacements.items():
            if source.name == name:
                self.define(source, self.expr(target))
                return
        raise ConversionError("FE304", f"symbol {name} is used, but no input or op defines it")

    def provide(self, name: str) -> bool:
        """Whether a callee can capture this symbol from here; it is defined here then."""
        try:
            self._require(name)
        except ConversionError:
            return False
        return True

    def _capture(self, name: str) -> bool:
        """Takes a symbol from the caller, if it has it. Precomputed sizes are each graph's own."""
        if self._outer is None or not self._outer.provide(name):
            return False
        self._defined[name] = self._outer._defined[name]
        self._function.capture(name)
        return True

    # --- inputs

    def define_from_inputs(self, values: dict[str, Value]) -> None:
        """Defines the symbols that the graph's inputs carry: plain scalars first, then sizes, strides, and last
        sizes that are expressions of one unknown symbol. `values` are `main`'s parameters by upstream name."""
        inputs = self._graph.graph_inputs
        for name, node in inputs.items():
            if isinstance(node, sympy.Symbol) and name in values:
                self._from(values[name])
                self.define(node, Item(values[name]))
        tensors = [(values[n], x) for n, x in inputs.items() if isinstance(x, ir.TensorBox) and n in values]
        for value, node in tensors:
            self._from(value)
            for dim, size in enumerate(node.get_size()):
                if isinstance(size, sympy.Symbol):
                    self.define(size, SizeOf(value, dim))
            for dim, stride in enumerate(node.get_stride()):
                if isinstance(stride, sympy.Symbol):
                    self.define(stride, StrideOf(value, dim))
        for value, node in tensors:
            self._from(value)
            solved = [self._solve(x, SizeOf(value, i)) for i, x in enumerate(node.get_size())]
            solved += [self._solve(x, StrideOf(value, i)) for i, x in enumerate(node.get_stride())]
            if any(solved):
                self._check(value)

    def _from(self, value: Value) -> None:
        """The ops that follow come from this input."""
        self._function.prov = Provenance(upstream=value.name)

    def _solve(self, expr: object, atom: Expr) -> bool:
        """Defines the one symbol of a compound size that nothing has defined yet; whether it did."""
        if not isinstance(expr, sympy.Expr) or isinstance(expr, sympy.Symbol):
            return False
        unknown = {s.name: s for s in expr.free_symbols if s.name not in self._defined}
        if not unknown:
            return False
        if len(unknown) > 1:
            raise ConversionError(
                "FE304", f"input size {expr} has several unknown symbols: {sorted(unknown)}"
            )
        from wrapper_ir.expr.sympy_bridge import solve  # few programs need it

        converted = to_expr(expr)
        for name in sorted(converted.free_symbols - unknown.keys()):
            self._require(name)
        ((name, symbol),) = unknown.items()
        self.define(symbol, solve(converted, atom, name))
        return True

    def _check(self, value: Value) -> None:
        """A solution is rounded down: only this check tells that it was one."""
        assert isinstance(value.type, TensorType)
        check = AssertLayout(
            tensor=value,
            sizes=value.type.sizes,
            strides=value.type.strides,
            message="input",
            prov=self._function.prov,
        )
        self._function.append(check)

    def sym(self, symbol: sympy.Symbol) -> Expr:
        """The expression node of a symbol."""
        return Sym(symbol.name, SymKind.FLOAT if _is(symbol, _FLOAT_TYPES) else SymKind.INT)

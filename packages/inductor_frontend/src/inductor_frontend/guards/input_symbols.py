"""Symbols of a function's parameters: read from their layouts or solved, and range-checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sympy
from torch._inductor import ir

from inductor_frontend.convert import to_expr
from inductor_frontend.errors import ConversionError
from inductor_frontend.guards.function_guards import FunctionGuards
from inductor_frontend.guards.trace_guards import Bounds
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Interval, Sym, SymKind, ge, le, print_expr
from wrapper_ir.ir import Item, OffsetOf, Provenance, SizeOf, StrideOf, SymbolDef, Value

_EMPTY = "; empty_sizes=True allows 0"


@dataclass(frozen=True, slots=True)
class Fact:
    """An equation between symbols and a parameter: `expr` over symbols equals the number `atom` of
    `value`."""

    value: Value
    expr: sympy.Expr
    atom: Expr

    @property
    def in_layout(self) -> bool:
        """True if the layout check of the parameter covers this fact."""
        return isinstance(self.atom, SizeOf | StrideOf)


def facts_of(guards: FunctionGuards, params: Mapping[str, Value]) -> list[Fact]:
    """Returns all facts of the parameters in `params` (Inductor's names), most reliable first.

    Numbers come first, then sizes, then strides and offsets, which are arbitrary for a tensor with at most
    one element.
    """
    inputs = [(params[n], node) for n, node in guards.graph.graph_inputs.items() if n in params]
    numbers = [Fact(v, x, Item(v)) for v, x in inputs if isinstance(x, sympy.Expr)]
    tensors = [(v, x) for v, x in inputs if isinstance(x, ir.TensorBox)]
    sizes = [Fact(v, s, SizeOf(v, d)) for v, x in tensors for d, s in _symbolic(x.get_size())]
    strides = [Fact(v, s, StrideOf(v, d)) for v, x in tensors for d, s in _symbolic(x.get_stride())]
    offsets = [
        Fact(params[n], x, OffsetOf(params[n]))
        for n, x in guards.graph.input_offsets().items()
        if n in params and isinstance(x, sympy.Expr) and x.free_symbols
    ]
    return _with_replaced(guards, numbers + sizes + strides + offsets)


def _with_replaced(guards: FunctionGuards, facts: list[Fact]) -> list[Fact]:
    """Adds the facts in canonical form about symbols that no fact mentions, since others replace them."""
    symbols = {s for fact in facts for s in fact.expr.free_symbols}
    replaced = [replace(f, expr=guards.symbols.canonical(f.expr)) for f in facts]
    return facts + [f for f in replaced if not f.expr.free_symbols <= symbols]


def _symbolic(exprs: Sequence[object]) -> list[tuple[int, sympy.Expr]]:
    return [(i, e) for i, e in enumerate(exprs) if isinstance(e, sympy.Expr) and e.free_symbols]


def define_from(guards: FunctionGuards, facts: list[Fact]) -> None:
    """Defines every symbol in these facts: first symbols that are a whole `expr`, then one unknown after the
    other.

    Raises ConversionError FE304 if a fact has several unknowns, or no unique solution.
    """
    for fact in facts:
        if isinstance(fact.expr, sympy.Symbol) and not isinstance(fact.atom, OffsetOf):
            _from(guards, fact)
            guards.symbols.define(fact.expr, fact.atom)
    for fact in facts:
        if isinstance(fact.atom, OffsetOf) and isinstance(fact.expr, sympy.Symbol):
            guards.symbols.define(fact.expr, fact.atom, if_used=True)
    pending = [f for f in facts if not isinstance(f.atom, OffsetOf) and _unknown(guards, f)]
    checked: set[Value] = set()
    while pending:
        ready = next((f for f in pending if len(_unknown(guards, f)) == 1), None)
        if ready is None:
            raise _several(pending[0], _unknown(guards, pending[0]))
        _solve(guards, ready)
        if ready.in_layout:
            checked.add(ready.value)
        pending = [f for f in pending if _unknown(guards, f)]
    for value in dict.fromkeys(f.value for f in facts if f.value in checked):
        guards.assert_layout(value)


def _unknown(guards: FunctionGuards, fact: Fact) -> list[sympy.Symbol]:
    """Returns the undefined symbols of a fact, sorted by name."""
    unknown = [s for s in fact.expr.free_symbols if s.name not in guards.symbols.defined]
    return sorted(unknown, key=lambda s: s.name)


def _several(fact: Fact, unknown: list[sympy.Symbol]) -> ConversionError:
    names = ", ".join(s.name for s in unknown)
    return ConversionError(
        "FE304",
        f"{print_expr(fact.atom)} is {fact.expr}, which does not determine {names}",
        hint="add an input to the model that has one of them as its size",
    )


def _solve(guards: FunctionGuards, fact: Fact) -> None:
    """Defines the only unknown of a compound size, rounded down."""
    from wrapper_ir.expr.sympy_bridge import solve  # deferred: rarely needed

    _from(guards, fact)
    (symbol,) = _unknown(guards, fact)
    try:
        solution = solve(to_expr(fact.expr), fact.atom, symbol.name)
    except ExpressionError as error:
        raise ConversionError(
            "FE304",
            f"{print_expr(fact.atom)} is {fact.expr}, "
            f"which has no single solution for {symbol.name}: {error.message}",
            hint=f"add an input to the model that has {symbol.name} itself as its size",
        ) from error
    guards.symbols.define(symbol, solution)


def _from(guards: FunctionGuards, fact: Fact) -> None:
    """Sets the provenance of the following ops to this input."""
    guards.function.prov = Provenance(frontend_name=fact.value.name)


# --- ranges


def sources_of(facts: list[Fact]) -> dict[str, Fact]:
    """Maps each symbol name to the fact whose whole `expr` it is, or else to the first fact that mentions
    it."""
    sources: dict[str, Fact] = {}
    for alone in (True, False):
        for fact in facts:
            for symbol in fact.expr.free_symbols if isinstance(fact.expr, sympy.Symbol) is alone else ():
                sources.setdefault(symbol.name, fact)
    return sources


def check_ranges(
    guards: FunctionGuards, defined: Mapping[str, Fact], promised: Bounds
) -> dict[str, Interval]:
    """Checks that symbols are in their declared ranges and in the `promised` ranges. Returns the declared
    ranges."""
    ranges: dict[str, Interval] = {}
    for symbol in tuple(guards.symbols.defined.values()):
        definition = guards.symbols.declare(symbol)
        if definition.kind is not SymKind.INT:
            continue
        ranges[symbol.name] = range_of(definition)
        fact = defined.get(symbol.name)
        number = fact is not None and isinstance(fact.atom, Item)
        low, high = _narrowed(definition, promised.get(symbol.name, (None, None)))
        expr, place = Sym(symbol.name), _place(fact, symbol)
        prov = Provenance(frontend_name=symbol.name if fact is None else fact.value.name)
        if low is not None and (number or low > 0):
            optional = low == 1 and not number and guards.symbols.is_assumed_positive(symbol)
            hint = _EMPTY if optional and not guards.options.empty_sizes else ""
            guards.assert_that(ge(expr, low), f"{place} is out of range{hint}", prov)
        if high is not None:
            guards.assert_that(le(expr, high), f"{place} is out of range", prov)
    return ranges


def range_of(definition: SymbolDef) -> Interval:
    """Returns the declared range of a symbol."""
    return Interval(definition.lower, definition.upper)


def _narrowed(
    definition: SymbolDef, promised: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    lows = [x for x in (definition.lower, promised[0]) if x is not None]
    highs = [x for x in (definition.upper, promised[1]) if x is not None]
    return max(lows, default=None), min(highs, default=None)


def _place(fact: Fact | None, symbol: sympy.Symbol) -> str:
    match None if fact is None else fact.atom:
        case SizeOf(value, dim):
            return f"size {dim} of input {value.name}"
        case StrideOf(value, dim):
            return f"stride {dim} of input {value.name}"
        case Item(value):
            return f"input {value.name}"
        case _:
            return f"symbol {symbol.name}"

"""C++ text of expressions: intermediate results of 64 bits if these are as exact as Python's, else of 128.

`Int` and `Wide` are the two classes (`integers.h`). Functions of `CPP_HELPERS` accept and return `Wide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import takewhile

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, Interval, SymKind, bounds, to_cpp
from wrapper_ir.expr.operators import ADD, MUL
from wrapper_ir.expr.width import int64_symbols

Ranges = Mapping[str, Interval]
"""Values of symbols; any int64 by default."""

_GREATEST = 2**63 - 1


def ranges_of(symbols: Iterable[ir.SymbolDef]) -> Ranges:
    """Returns the declared ranges of int symbols, int64 by default."""
    return {
        s.name: Interval(
            -_GREATEST - 1 if s.lower is None else s.lower, _GREATEST if s.upper is None else s.upper
        )
        for s in symbols
        if s.kind is SymKind.INT
    }


def number_text(e: Expr, leaf: Callable[[Expr], str], ranges: Ranges) -> str:
    """Returns C++ text of an `Int`, a `double` or a `bool`.

    Raises ExpressionError WIR404 for a constant that is not an int64.
    """
    if e.op is None:
        return to_cpp(e, leaf)
    symbols = {**int64_symbols(e), **ranges}
    is_narrow = _is_narrow(e, lambda part: bounds(part, symbols))
    text = to_cpp(e, leaf if is_narrow else partial(_wide_leaf, leaf))
    return f"Int({text})" if e.kind is SymKind.INT and not (is_narrow and _is_sum(e)) else text


def _wide_leaf(leaf: Callable[[Expr], str], e: Expr) -> str:
    return f"Wide({leaf(e)})" if e.kind is SymKind.INT else leaf(e)


def _is_sum(e: Expr) -> bool:
    """Returns whether the text of `e` without `Wide` is an `Int`: sums and products of ints, not all
    constant.
    """
    if e.op is None:
        return e.kind is SymKind.INT
    return e.op in (ADD, MUL) and all(map(_is_sum, e.args)) and not all(type(x) is Int for x in e.args[:2])


def _is_narrow(e: Expr, bounds_of: Callable[[Expr], Interval]) -> bool:
    """Returns whether arithmetic of 64 bits computes `e`, and fails only if its value is not an int64."""

    def fits(part: Expr) -> bool:
        if part.op is None or part.kind is not SymKind.INT:
            return _is_narrow(part, bounds_of)
        interval = bounds_of(part)
        return interval.low >= -_GREATEST and interval.high <= _GREATEST and _is_narrow(part, bounds_of)

    if e.op is None:
        return True
    if e.op not in (ADD, MUL):
        return all(map(fits, e.args))
    if e.kind is not SymKind.INT:
        ints = tuple(takewhile(lambda arg: arg.kind is not SymKind.FLOAT, e.args))  # computed first, as ints
        return all(map(fits, e.args)) and (len(ints) < 2 or fits(e.op(*ints)))
    if all(map(fits, e.args)) and len(e.args) == 2:
        return True
    least = 0 if e.op is ADD else 1  # no operand reduces the magnitude of another
    return all(bounds_of(arg).low >= least and _is_narrow(arg, bounds_of) for arg in e.args)

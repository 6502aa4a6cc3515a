"""Upper bounds of the bits of ints, from the structure of expressions alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wrapper_ir.expr.arithmetic import MAX_BITS
from wrapper_ir.expr.base import Expr, SymKind
from wrapper_ir.expr.interval import Interval
from wrapper_ir.expr.leaves import Int, Sym
from wrapper_ir.expr.operators import ADD, MUL, POW
from wrapper_ir.expr.ranges import bounds

_INT64 = 64
_ANY_INT64 = Interval(-(2**63), 2**63 - 1)
_FLOAT = 1025
"""Bits of the largest float converted to an int, and its sign."""


def width(e: Expr, symbols: Mapping[str, int]) -> int:
    """Returns an upper bound of the bits of `e`; `symbols` has the bits of symbols wider than int64.

    A power that may be longer than 4096 bits counts as 4096: `arithmetic.power` refuses longer ones at run
    time.
    """
    widths: dict[Expr, int] = {}

    def visit(node: Expr) -> int:
        bits = widths.get(node)
        if bits is None:
            bits = widths[node] = _width(node, [visit(arg) for arg in node.args], symbols)
        return bits

    return visit(e)


def _width(e: Expr, widths: Sequence[int], symbols: Mapping[str, int]) -> int:
    """Returns the bits of `e` by those of its operands."""
    if e.kind is not SymKind.INT:
        return _FLOAT if e.kind is SymKind.FLOAT else 1
    if type(e) is Int:
        return e.value.bit_length()
    if not e.args:
        return symbols.get(e.name, _INT64) if type(e) is Sym else _INT64
    if e.op is MUL:
        return sum(widths)
    if e.op is ADD:
        return max(widths) + len(widths).bit_length()
    if e.op is POW:
        exp = e.args[1]
        return min(MAX_BITS, widths[0] * exp.value) if type(exp) is Int and exp.value >= 0 else MAX_BITS
    return max(widths) + 1


def is_open_power(e: Expr) -> bool:
    """Returns whether a power needs a run-time check: it may be too long (int) or not real (float)."""
    base, exp = e.args
    if e.kind is SymKind.FLOAT:
        whole = exp.kind is not SymKind.FLOAT or (
            exp.constant is not None and float(exp.constant).is_integer()
        )
        return not whole and not (base.constant is not None and base.constant >= 0)
    return not (type(exp) is Int and exp.value >= 0 and width(base, {}) * exp.value <= MAX_BITS)


def stays_int64(e: Expr) -> bool:
    """Returns whether an expression is not an int, or fits int64 for all int64 symbols.

    Any other expression needs a run-time check.
    """
    if e.kind is not SymKind.INT or not (e.args or e.constant is not None):
        return True
    if e.free_atoms:  # an atom under an operator
        return False
    interval = bounds(e, int64_symbols(e))
    return _ANY_INT64.low <= interval.low and interval.high <= _ANY_INT64.high


def int64_symbols(e: Expr) -> dict[str, Interval]:
    """Returns the int symbols of `e`, each with the range of int64. Float symbols have no range."""
    ranges: dict[str, Interval] = {}
    visited: set[Expr] = set()
    worklist = [e]
    while worklist:
        node = worklist.pop()
        if type(node) is Sym and node.kind is SymKind.INT:
            ranges[node.name] = _ANY_INT64
        elif node not in visited:
            visited.add(node)
            worklist += node.args
    return ranges

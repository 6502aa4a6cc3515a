"""How many bits an int can have at most, from the shape of its expression alone."""

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
"""The largest float, as an int."""


def width(e: Expr, symbols: Mapping[str, int]) -> int:
    """Bits of `e` at most, where `symbols` gives those of symbols that are wider than an int64.

    A power that can be longer than 4096 bits counts as 4096: it is computed by `arithmetic.power`, which refuses.
    """
    done: dict[Expr, int] = {}

    def visit(node: Expr) -> int:
        found = done.get(node)
        if found is None:
            found = done[node] = _width(node, [visit(arg) for arg in node.args], symbols)
        return found

    return visit(e)


def _width(e: Expr, widths: Sequence[int], symbols: Mapping[str, int]) -> int:
    """Bits of `e`, whose operands have `widths`."""
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
    """Whether a power needs a look at its operands: one of ints may be too long to compute, one of floats not real."""
    base, exp = e.args
    if e.kind is SymKind.FLOAT:
        whole = exp.kind is not SymKind.FLOAT or (
            exp.constant is not None and float(exp.constant).is_integer()
        )
        return not whole and not (base.constant is not None and base.constant >= 0)
    return not (type(exp) is Int and exp.value >= 0 and width(base, {}) * exp.value <= MAX_BITS)


def stays_int64(e: Expr) -> bool:
    """Whether an expression is an int64 wherever its symbols are, or no int; what is not has to be looked at when it is
    computed."""
    if e.kind is not SymKind.INT or not (e.args or e.constant is not None):
        return True
    if e.free_atoms:  # an atom under an operator
        return False
    found = bounds(e, int64_symbols(e))
    return _ANY_INT64.low <= found.low and found.high <= _ANY_INT64.high


def int64_symbols(e: Expr) -> dict[str, Interval]:
    """The int symbols of `e`, each with the range of an int64: floats have none."""
    found: dict[str, Interval] = {}
    seen: set[Expr] = set()
    waiting = [e]
    while waiting:
        node = waiting.pop()
        if type(node) is Sym and node.kind is SymKind.INT:
            found[node.name] = _ANY_INT64
        elif node not in seen:
            seen.add(node)
            waiting += node.args
    return found

"""Expressions as IR text. `parse_expr(print_expr(e)) is e` for every expression."""

from __future__ import annotations

from wrapper_ir.expr.base import Atom, Expr, Operator
from wrapper_ir.expr.leaves import Int, Sym
from wrapper_ir.expr.printer import Printer
from wrapper_ir.expr.spelling import Spelling


def print_expr(e: Expr) -> str:
    """Returns the IR text of `e`, with the fewest parentheses that preserve its structure."""
    if type(e) is Int:
        return str(e.value)
    if type(e) is Sym:
        return e.name
    return _PRINTER.text(e)


class _TextPrinter(Printer):
    truth_words = ("false", "true")

    def spelling(self, op: Operator, e: Expr) -> Spelling:
        return op.text

    def number(self, value: float) -> str:
        return repr(value)


def _leaf(e: Expr) -> str:
    match e:
        case Sym(name):
            return name
        case Atom():
            return e.text
        case _:
            raise AssertionError(type(e).__name__)  # constants are written by `number`


_PRINTER = _TextPrinter(_leaf)
Expr.text_form = print_expr

"""Printer and parser of the text form; `docs/text-form.md` has the grammar.

Names are imported on first use: printing needs no parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from wrapper_ir.text.parser import parse_program
    from wrapper_ir.text.printer import (
        PrintedLine,
        print_excerpt,
        print_function,
        print_lines,
        print_op,
        print_program,
    )

__all__ = [
    "PrintedLine",
    "parse_program",
    "print_excerpt",
    "print_function",
    "print_lines",
    "print_op",
    "print_program",
]

_HOME = {
    "PrintedLine": "printer",
    "parse_program": "parser",
    "print_excerpt": "printer",
    "print_function": "printer",
    "print_lines": "printer",
    "print_op": "printer",
    "print_program": "printer",
}
"""The module of each public name; a test compares the keys with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _HOME)

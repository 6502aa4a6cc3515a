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

_MODULES = {
    "parser": ("parse_program",),
    "printer": ("PrintedLine", "print_excerpt", "print_function", "print_lines", "print_op", "print_program"),
}
"""The public names of each module; a test compares them with `__all__`."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)

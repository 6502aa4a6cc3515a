"""Printer and parser of the text form; `docs/text-form.md` has the grammar."""

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

"""The text form: printing and parsing. `docs/text-form.md` gives the grammar."""

from wrapper_ir.text.parser import parse_program
from wrapper_ir.text.printer import print_excerpt, print_function, print_op, print_program

__all__ = ["parse_program", "print_excerpt", "print_function", "print_op", "print_program"]

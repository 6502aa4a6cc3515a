"""Builds a whole program around lines of a function body, with declarations of all names."""

from __future__ import annotations

import re
from pathlib import Path

from wrapper_ir import Program, parse_program
from wrapper_ir.errors import ParseError

GOLDEN = Path(__file__).parent / "golden"
_LIMIT = 100
_TYPES = {"%t": "results", "%e": "event", "%p": "bool", "%pool": "storage(4096)"}
"""Types of values by name; all others are tensors."""


def every_op() -> str:
    """Returns the text of a program with every op, type and kind of argument."""
    return (GOLDEN / "every_op.wir.txt").read_text(encoding="utf-8")


def program_of(lines: str) -> Program:
    """Returns a program whose main has these ops; undefined values become parameters, undeclared symbols
    declarations."""
    values: dict[str, None] = {}
    symbols: dict[str, None] = {}
    for _ in range(_LIMIT):
        declared = "".join(f"symbol {s} : int backed\n" for s in symbols)
        params = ", ".join(f"{v}: {_TYPES.get(v, 'f32[8]')}" for v in values)
        try:
            return parse_program(f"wir 0.5\n{declared}func @main({params}) {{\n{lines}\n}}\n")
        except ParseError as error:
            value = re.search(r"value (%\S+) is not defined", error.message)
            symbol = re.search(r"symbol (\w+) is not declared", error.message)
            if value:
                values[value[1]] = None
            elif symbol:
                symbols[symbol[1]] = None
            else:
                raise
    raise AssertionError(f"too many names in {lines!r}")

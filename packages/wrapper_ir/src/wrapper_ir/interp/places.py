"""Errors with the op in its surroundings."""

from __future__ import annotations

from wrapper_ir.errors import WirError
from wrapper_ir.program import Function
from wrapper_ir.quoting import printable
from wrapper_ir.runtime.failures import add_place
from wrapper_ir.text import print_excerpt

__all__ = ["add_context", "op_place"]


def op_place(function: Function, position: int) -> str:
    """The op with its neighbours, marked, and where it comes from."""
    prov = function.body[position].prov
    source = ", ".join((*prov.nodes, *prov.ops, *prov.locations))
    where = f"in @{function.name}, op {position}" + (f", from {source}" if source else "")
    return f"{printable(where)}:\n{print_excerpt(function, position)}"


def add_context(error: Exception, function: Function, position: int) -> None:
    """Adds the op to an error that does not name one yet: to the message of ours, as a note to others, whose class callers
    know from eager mode."""
    place = f"\n{op_place(function, position)}"
    if not isinstance(error, WirError):
        add_place(error, place)
    elif not any(line.startswith("in @") for line in error.message.splitlines()):
        error.locate(place)

"""Prints an op in its surroundings, for error messages."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.support.quoting import printable
from wrapper_ir.text import print_excerpt


def op_place(function: ir.Function, position: int) -> str:
    """The op with its neighbours, marked, and where it comes from."""
    prov = function.body[position].prov
    source = ", ".join((*prov.nodes, *prov.ops, *prov.locations))
    where = f"in @{function.name}, op {position}" + (f", from {source}" if source else "")
    return f"{printable(where)}:\n{print_excerpt(function, position)}"

"""Places of ops in error messages."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.support.quoting import printable
from wrapper_ir.text import print_excerpt


def op_place(function: ir.Function, position: int) -> str:
    """Returns the marked op with its neighbors, and its source."""
    prov = function.body[position].prov
    source = ", ".join((*prov.nodes, *prov.ops, *prov.locations))
    where = f"in @{function.name}, op {position}" + (f", from {source}" if source else "")
    return f"{printable(where)}:\n{print_excerpt(function, position)}"

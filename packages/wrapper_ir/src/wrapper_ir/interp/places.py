"""Errors with the op in its surroundings."""

from __future__ import annotations

from wrapper_ir.errors import ExecutionError, WirError
from wrapper_ir.program import Function
from wrapper_ir.text import print_excerpt

__all__ = ["PlacedError", "in_context", "op_place"]


def op_place(function: Function, position: int) -> str:
    """The op with its neighbours, marked, and where it comes from."""
    prov = function.body[position].prov
    source = ", ".join((*prov.nodes, *prov.ops, *prov.locations))
    where = f"in @{function.name}, op {position}" + (f", from {source}" if source else "")
    return f"{where}:\n{print_excerpt(function, position)}"


class PlacedError(ExecutionError):
    """An execution error whose message names the op."""


def in_context(error: Exception, function: Function, position: int) -> WirError:
    """`error` with the op that met it; an error that names an op already is returned unchanged."""
    if isinstance(error, PlacedError):
        return error
    code, message, hint = "WIR927", f"{type(error).__name__}: {error}", ""
    if isinstance(error, WirError):
        code, message, hint = error.code, error.message, error.hint
    return PlacedError(code, f"{message}\n{op_place(function, position)}", hint=hint)

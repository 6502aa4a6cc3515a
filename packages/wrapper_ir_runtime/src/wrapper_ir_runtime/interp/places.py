"""Adds the op and its surrounding ops to errors."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.errors import WirError
from wrapper_ir.text.op_place import op_place
from wrapper_ir_runtime.failures import add_place


def add_context(error: Exception, function: ir.Function, position: int) -> None:
    """Adds the op to an error that does not name one yet.

    It extends the message of a WirError. Other errors get a note, since callers know their classes from eager
    mode.
    """
    place = f"\n{op_place(function, position)}"
    if not isinstance(error, WirError):
        add_place(error, place)
    elif not any(line.startswith("in @") for line in error.message.splitlines()):
        error.locate(place)

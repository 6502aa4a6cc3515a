"""Steps that this edition does not write."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir_lowering.steps import StepBase

__all__ = ["refuse"]

_HINT = "emit the program with py_wrapper or fx_converter"


def refuse(what: str) -> Callable[[StepBase, FunctionScope], NoReturn]:
    """A writer that raises EmitError CPP501, naming `what` and the place."""

    def write(step: StepBase, scope: FunctionScope) -> NoReturn:
        raise scope.error("CPP501", f"this edition does not write {what} in C++", _HINT)

    return write

"""Exceptions that py_wrapper raises, each with a stable code (PYnnn).

Limits of the target are wrapper_ir's NotSupportedError (WIR91n); failures at run time are its ExecutionError.
"""

from __future__ import annotations

from typing import Protocol

from wrapper_ir.errors import WirError


class _Place(Protocol):
    def place(self) -> str:
        """Returns the op in its context."""


class PyWrapperError(WirError):
    """Base class of this package's errors."""


class EmitError(PyWrapperError):
    """Error of writing a program as Python: the program is not valid (PY101), or its signature does not match
    it (PY102)."""

    def __init__(self, code: str, message: str, scope: _Place | None = None) -> None:
        text = message if scope is None else f"{message}\n{scope.place()}"
        super().__init__(code, text, hint="wrapper_ir.verify says what is wrong with a program")


class CacheError(PyWrapperError):
    """Error of writing files: a module that is not text (PY201), into an output folder (PY202), or of moving
    them to another one (PY203)."""

"""Every exception that py_wrapper raises, each with a stable code (PYnnn).

What the target cannot do is wrapper_ir's NotSupportedError (WIR91n), what fails at run time its ExecutionError.
"""

from __future__ import annotations

from typing import Protocol

from wrapper_ir.errors import WirError


class _Place(Protocol):
    def place(self) -> str:
        """The op in its surroundings."""


class PyWrapperError(WirError):
    """Base of this package's own errors."""


class EmitError(PyWrapperError):
    """A program cannot be written as Python: it is not valid (PY101), or its signature does not fit it (PY102)."""

    def __init__(self, code: str, message: str, scope: _Place | None = None) -> None:
        text = message if scope is None else f"{message}\n{scope.place()}"
        super().__init__(code, text, hint="wrapper_ir.verify says what is wrong with a program")


class CacheError(PyWrapperError):
    """Files cannot be written: a module that is not text (PY201), into an output folder (PY202), or moved to another one (PY203)."""

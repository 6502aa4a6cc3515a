"""Every exception that py_wrapper raises, each with a stable code (PYnnn).

What the target cannot do is wrapper_ir's NotSupportedError (WIR91n), what fails at run time its ExecutionError.
"""

from __future__ import annotations

from wrapper_ir.errors import WirError

__all__ = ["EmitError", "PyWrapperError"]


class PyWrapperError(WirError):
    """Base of this package's own errors."""


class EmitError(PyWrapperError):
    """A program cannot be written as Python: PY101 a malformed op, PY102 an output folder, PY103 the cache folder."""

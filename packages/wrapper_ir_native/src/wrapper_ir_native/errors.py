"""Exceptions of wrapper_ir_native, with the codes and the bases of the other engines' classes.

A released code never changes its meaning; `docs/errors.md` lists all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping


class NativeError(RuntimeError):
    """Base of all errors of this package. `code` is stable; `hint` suggests the next step."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(f"[{code}] {message}" + (f"\n  hint: {hint}" if hint else ""))


class ArgumentError(NativeError, TypeError):
    """An argument of another kind, type or structure than the model's (WIR926)."""


class TensorCheckError(NativeError, ValueError):
    """A tensor of another layout, or with a NaN that a check refuses (WIR921, WIR922)."""


class ExecutionError(NativeError):
    """A call failed: a condition of the model, or an operator (WIR920, WIR927 and others)."""


class ExpressionError(NativeError, ValueError):
    """An expression of sizes has no value, or one beyond 64 bits (WIR402, WIR408)."""


class DivisionError(ExpressionError, ZeroDivisionError):
    """A division by zero in an expression (WIR402)."""


class ArtifactError(NativeError):
    """The library's file was written while its constants are in use (WIR713)."""


class IsaError(NativeError):
    """The processor lacks instructions (CPP201)."""


class CacheError(NativeError):
    """A file is not a library, is damaged, or cannot be loaded (CPP304, CPP306)."""


class LaunchError(NativeError, TypeError):
    """A kernel failed (CPP405, CPP406)."""


class KernelIndexError(LaunchError, IndexError):
    """An index of a kernel is out of bounds (CPP406)."""


class ConstantError(NativeError, ValueError):
    """Constants cannot be changed in this way (CPP530, CPP531)."""


class OutputError(NativeError, ValueError):
    """An array of the caller cannot store a result (CPP610)."""


class CopyError(NativeError, TypeError):
    """A loaded model cannot be copied or pickled (CPP611)."""


class UnsupportedError(NativeError):
    """A signature that needs more than numpy (WIR916)."""


_BY_CODE: Mapping[str, type[NativeError]] = {
    "WIR408": ExpressionError,
    "WIR713": ArtifactError,
    "WIR921": TensorCheckError,
    "WIR922": TensorCheckError,
    "WIR926": ArgumentError,
    "CPP201": IsaError,
    "CPP304": CacheError,
    "CPP306": CacheError,
    "CPP405": LaunchError,
    "CPP530": ConstantError,
    "CPP531": ConstantError,
    "CPP610": OutputError,
}
_ERROR = re.compile(r"\[((?:WIR|CPP)\d+)\] (.*)", re.DOTALL)


def error_of(text: str) -> NativeError:
    """Returns the exception for an error text of a library."""
    match = _ERROR.match(text)
    if match is None:
        return ExecutionError("WIR927", text)
    code, message = match.groups()
    if code == "CPP406":
        return (KernelIndexError if "index out of bounds" in message else LaunchError)(code, message)
    if code == "WIR402":
        is_division = message.startswith("a division by zero")
        return (DivisionError if is_division else ExpressionError)(code, message)
    return _BY_CODE.get(code, ExecutionError)(code, message)

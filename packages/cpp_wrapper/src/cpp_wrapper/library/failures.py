"""Converts error texts of a library to exceptions of the classes that other engines raise."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from cpp_wrapper.errors import (
    CacheError,
    ConstantError,
    CppError,
    DeviceError,
    IsaError,
    LaunchError,
    OutputError,
    kernel_failure,
)
from wrapper_ir.errors import (
    ArgumentError,
    ArtifactError,
    DivisionError,
    ExecutionError,
    ExpressionError,
    TensorCheckError,
    WirError,
)

_ERROR = re.compile(r"\[((?:WIR|CPP)\d+)\] (.*)", re.DOTALL)
_OF_PYTHON = re.compile(r"\S+ failed: (?:\w+\.)*(\w+): (.*?)\n\nAt:\n", re.DOTALL)
"""Torch's message for an error in a Python operator: class, text, and where it was raised."""
_LINALG_ERROR: type[Exception] = vars(torch.linalg)["LinAlgError"]  # torch does not list it for type checkers
_TORCHS: Mapping[str, type[Exception]] = {
    "OutOfMemoryError": torch.OutOfMemoryError,
    "_LinAlgError": _LINALG_ERROR,
}
_ERRORS: Mapping[str, type[WirError]] = {
    **dict.fromkeys(("WIR402", "WIR408"), ExpressionError),
    "WIR713": ArtifactError,
    "WIR926": ArgumentError,
    "WIR921": TensorCheckError,
}
_CPP_ERRORS = {"CPP2": IsaError, "CPP3": CacheError}
_BY_CODE: Mapping[str, type[CppError]] = {
    **dict.fromkeys(("CPP530", "CPP531"), ConstantError),
    **dict.fromkeys(("CPP590", "CPP591", "CPP592"), DeviceError),
    "CPP593": LaunchError,
    "CPP610": OutputError,
}


def error_of(text: str) -> Exception:
    """Returns the exception for an error text of a library."""
    match = _ERROR.match(text)
    if match is None:
        return RuntimeError(text)
    code, message = match.groups()
    if code == "WIR927":
        return _operator_failure(message)
    if code == "CPP406":
        return kernel_failure(code, message)
    if code in _BY_CODE:
        return _BY_CODE[code](code, message)
    if code.startswith("CPP"):
        return _CPP_ERRORS.get(code[:4], CppError)(code, message)
    if code == "WIR402" and message.startswith("a division by zero"):
        return DivisionError(code, message)
    return _ERRORS.get(code, ExecutionError)(code, message)


def _operator_failure(message: str) -> Exception:
    """Returns the error of an operator.

    If torch's message names the original class, the error has that class, and our message as a note.
    """
    factorisation = re.match(r"aten::_linalg_check_errors failed: (.*)", message)
    if factorisation is not None:
        error = _LINALG_ERROR(factorisation[1])
    else:
        match = _OF_PYTHON.match(message)
        if match is not None and _ERROR.match(match[2]):  # raised by our operators
            return error_of(match[2])
        kind = None if match is None else _error_class(match[1])
        if match is None or kind is None:
            return ExecutionError("WIR927", message)
        error = kind.__new__(kind, match[2])  # its constructor may need other arguments
    error.add_note(f"[WIR927] {message}")
    return error


def _error_class(name: str) -> type[Exception] | None:
    """Returns the only exception class of a name, builtin ones first; None if none exists or several do."""
    if name in _TORCHS:
        return _TORCHS[name]
    kinds: dict[type[Exception], None] = {Exception: None}
    for kind in (queue := [Exception]):  # the loop extends it
        new = [each for each in kind.__subclasses__() if each not in kinds]
        kinds.update(dict.fromkeys(new))
        queue += new
    matches = [kind for kind in kinds if kind.__name__ == name]
    candidates = [kind for kind in matches if kind.__module__ == "builtins"] or matches
    return candidates[0] if len(candidates) == 1 else None

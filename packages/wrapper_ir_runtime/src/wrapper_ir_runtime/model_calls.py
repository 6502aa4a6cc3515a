"""Callables with a model's signature: binding of arguments, pickling and copying.

A callable is a bound method. `pickle` and `copy.deepcopy` ask the object that it is bound to, and a call does
not use that object.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, cast

from wrapper_ir.errors import ArgumentError, CopyError
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_runtime.parameters import REQUIRED

Boxed = Callable[[list[Any]], tuple[Any, ...]]  # Any: as in `CompiledProgram`
_HINT = "wrapper_ir.save stores the artifact: load and compile it in the other process, or again for a copy"


class CallOwner:
    """The object that a compiled function is bound to.

    A function of an imported module is pickled by reference, like any function. Others are neither pickled
    nor deep-copied, because their kernels and constants belong to the process.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function = weakref.ref(function)  # the method refers to both

    def __getattr__(self, name: str) -> MethodType:
        function = self._function()
        if function is None or name != function.__name__:
            raise AttributeError(name)
        return MethodType(function, self)

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        """Returns the import of the function's module; raises CopyError WIR940 for other functions."""
        return importlib.import_module, (self._module("pickled"),)

    def __deepcopy__(self, memo: object) -> CallOwner:
        """Returns the owner of a function of an imported module; raises CopyError WIR940 for others."""
        self._module("copied")
        return self

    def _module(self, action: str) -> str:
        function = self._function()
        name = "" if function is None else function.__module__
        method = None if function is None else vars(sys.modules.get(name, sys)).get(function.__name__)
        if getattr(method, "__self__", None) is not self:  # any object may have this name
            raise CopyError("WIR940", f"a compiled program cannot be {action}", hint=_HINT)
        return name


def python_function(entry: object) -> FunctionType:
    """Returns a function of Python, or that of a method."""
    function = entry.__func__ if isinstance(entry, MethodType) else entry
    return cast("FunctionType", function)  # callers pass no others


def model_call(function: Callable[..., object], boxed: Boxed) -> CompiledProgram:
    """Returns a callable over `function`, whose first parameter is not part of a call. `boxed` is the
    callable's attribute."""
    method = MethodType(function, CallOwner(python_function(function)))
    method.__func__.boxed = boxed  # type: ignore[attr-defined]  # functions take attributes
    return cast("CompiledProgram", method)


def with_parameters(
    parameters: Callable[..., object], boxed: Boxed
) -> Callable[[Callable[..., object]], CompiledProgram]:
    """Returns a decorator like `model_call`. `inspect.signature` shows the signature of `parameters` (see
    `bind_arguments`)."""

    def decorate(function: Callable[..., object]) -> CompiledProgram:
        function.__wrapped__ = parameters  # type: ignore[attr-defined]  # functions take attributes
        return model_call(function, boxed)

    return decorate


def bind_arguments(
    parameters: Callable[..., tuple[Any, ...]],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    /,
    **by_name: object,
) -> tuple[Any, ...]:
    """Returns `parameters(program, *args, **kwargs, **by_name)` without the arguments that are REQUIRED.
    Those by position are the last ones.

    Raises ArgumentError WIR926 for missing, unknown and repeated arguments, and the errors of `parameters`.
    """
    while args and args[-1] is REQUIRED:
        args = args[:-1]
    for name, value in by_name.items():
        if value is not REQUIRED:
            kwargs[name] = value
    try:
        return parameters(None, *args, **kwargs)
    except ArgumentError:
        raise
    except TypeError:
        try:
            inspect.signature(parameters).bind(None, *args, **kwargs)
        except TypeError as error:
            raise ArgumentError("WIR926", f"arguments: {error}") from None
        raise

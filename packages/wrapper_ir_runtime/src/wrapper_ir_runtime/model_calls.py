"""Callables with a model's signature: errors of arguments, pickling and copying.

A callable is a bound method. `pickle` and `copy.deepcopy` ask the object that it is bound to, and a call does
not use that object.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from types import FunctionType, MethodType
from typing import Any, cast

from wrapper_ir.errors import CopyError
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_runtime.argument_failures import BOUND, binding_failure
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


def coded_call(boxed: Boxed) -> Callable[[Callable[..., object]], CompiledProgram]:
    """Returns a decorator for a function with a model's parameters: `model_call` with coded errors.

    Missing, unknown, repeated and malformed arguments raise ArgumentError WIR926.
    """

    def decorate(function: Callable[..., object]) -> CompiledProgram:
        parameters = list(signature(function).parameters.values())
        prefix = "_"
        while any(parameter.name.startswith(prefix) for parameter in parameters):
            prefix += "_"
        values: dict[str, Any] = {"function": function, "arrange": _arrange, "failure_of": binding_failure}
        values |= {"BOUND": BOUND, "REQUIRED": REQUIRED}
        values |= {f"default{i}": parameter.default for i, parameter in enumerate(parameters)}
        scope = {f"{prefix}{name}": value for name, value in values.items()}
        exec(compile(_call_text(parameters, prefix), "<call of a model>", "exec"), scope)
        program = Parameter(f"{prefix}program", Parameter.POSITIONAL_ONLY)
        described: Any = update_wrapper(lambda: None, function)  # Any: functions take attributes
        described.__signature__ = Signature([program, *parameters])
        return model_call(update_wrapper(scope["call"], described, updated=()), boxed)

    return decorate


def _arrange(
    args: tuple[object, ...], kwargs: dict[str, object], by_name: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Returns the arguments of a call by position, whose last ones may be REQUIRED, and those by name."""
    while args and args[-1] is REQUIRED:
        args = args[:-1]
    return args, kwargs | {name: value for name, value in by_name.items() if value is not REQUIRED}


def _call_text(parameters: Sequence[Parameter], _: str) -> str:
    """Returns the text of a function that calls a model's function; `_` is a prefix that no parameter has.

    Arguments by position, and those of keyword parameters, are not packed: `*args, **kwargs` would cost
    0.4 us a call. Other calls pass their arguments on as they are, so that Python reports what is wrong.
    """
    keywords = [p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
    count = len(parameters) - len(keywords)
    positional = [f"{_}{i}" for i in range(count)]
    names = [*positional, *keywords]
    required = [name for name, p in zip(names, parameters) if p.default is Parameter.empty]
    tested = [
        *[name for name in required if name in positional][-1:],
        *(n for n in required if n in keywords),
    ]
    unusual = [f"{_}rest", f"{_}keywords", *(f"{name} is {_}REQUIRED" for name in tested)]
    lines = [
        f"def call({_}program, {''.join(f'{name}={_}REQUIRED, ' for name in positional)}/, *{_}rest,"
        f" {''.join(f'{name}={_}REQUIRED, ' for name in keywords)}**{_}keywords):",
        "    try:",
        f"        if {' or '.join(unusual)}:",
        f"            {_}args, {_}kwargs = {_}arrange(",
        f"                ({''.join(f'{n}, ' for n in positional)}*{_}rest,), {_}keywords,",
        f"                {{{', '.join(f'{n!r}: {n}' for n in keywords)}}})",
        f"            return {_}function(*{_}args, **{_}kwargs)",
        *(
            f"        if {name} is {_}REQUIRED: {name} = {_}default{i}"
            for i, name in enumerate(names)
            if name not in required
        ),
        f"        return {_}function({', '.join([*positional, *(f'{n}={n}' for n in keywords)])})",
        f"    except {_}BOUND as {_}error:",
        f"        {_}failure = {_}failure_of({_}error)",
        f"        if {_}failure is None:",
        "            raise",
        f"        raise {_}failure from {_}error",
    ]
    return "\n".join(lines)

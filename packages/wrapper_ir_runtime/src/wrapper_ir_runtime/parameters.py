"""Rearranges the arguments of a call into the form that they had at capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from wrapper_ir import ir
from wrapper_ir.errors import ArgumentError
from wrapper_ir_runtime.failures import expect_static
from wrapper_ir_runtime.trees import Arguments, tree_keys


class _Required:
    """Default of a required parameter that follows one with a default."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()  # Any: it stands for a value of any type


def fail_missing(name: str) -> NoReturn:
    """Raises ArgumentError WIR926 for a missing argument."""
    raise ArgumentError("WIR926", f"argument {name} is missing", hint="it was given at capture")


def arrange(
    signature: ir.Signature,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    literal: Callable[[ir.Arg], object],
) -> Arguments:
    """Returns the same call with arguments by position or keyword as in `signature.inputs`.

    Raises ArgumentError WIR926 for a missing, repeated or unknown argument. It also raises it for one that
    had its default at capture and has another value now.
    """
    if not signature.parameters:
        return tuple(args), dict(kwargs)
    positional, keywords = signature.inputs.children
    count, keys = len(positional.children), [str(k) for k in tree_keys(keywords)]
    rest = {**kwargs}
    arguments = _by_position(signature.parameters, args, rest, count)
    extra = tuple(args[len(arguments) :])
    for parameter in signature.parameters:
        if parameter.kind is not ir.ParameterKind.POSITIONAL and parameter.name in rest:
            arguments[parameter.name] = rest.pop(parameter.name)
    by_position = [p for p in signature.parameters if p.kind is not ir.ParameterKind.KEYWORD][:count]
    arranged = tuple(_take(p, arguments, literal) for p in by_position) + extra
    by_name = {p.name: p for p in signature.parameters}
    keywords_at_capture = {
        key: _take(by_name[key], arguments, literal) if key in by_name else rest.pop(key)
        for key in keys
        if key in by_name or key in rest
    }
    for name, value in arguments.items():  # left to their defaults at capture
        expect_static(name, value, literal(by_name[name].default))
    return arranged, {**keywords_at_capture, **rest}


def _by_position(
    parameters: Sequence[ir.Parameter], args: Sequence[object], rest: Mapping[str, object], count: int
) -> dict[str, object]:
    """Returns positional arguments by name. The number of additional ones must be that of the capture."""
    positional = [p for p in parameters if p.kind is not ir.ParameterKind.KEYWORD]
    arguments = {p.name: value for p, value in zip(positional, args)}
    extra = max(0, count - len(positional))
    if len(args) - len(arguments) not in ({extra} if extra else {0}):
        raise ArgumentError(
            "WIR926", f"arguments: expected at most {len(positional) + extra}, got {len(args)}"
        )
    for name in arguments:
        if name in rest and any(p.name == name and p.kind is ir.ParameterKind.ANY for p in parameters):
            raise ArgumentError("WIR926", f"argument {name} is given twice")
    return arguments


def _take(
    parameter: ir.Parameter, arguments: dict[str, object], literal: Callable[[ir.Arg], object]
) -> object:
    if parameter.name in arguments:
        return arguments.pop(parameter.name)
    if parameter.required:
        fail_missing(parameter.name)
    return literal(parameter.default)

"""Rearranges the arguments of a call as they were given at capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from wrapper_ir import ir
from wrapper_ir.errors import ArgumentError
from wrapper_ir_runtime.failures import expect_static
from wrapper_ir_runtime.trees import tree_keys

# Any in this file: the caller's own arguments.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class _Required:
    """The default of a parameter that follows one with a default, and that a call must give."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()  # Any: it stands for a value of any type


def fail_missing(name: str) -> NoReturn:
    """An argument is missing; raises ArgumentError WIR926."""
    raise ArgumentError("WIR926", f"argument {name} is missing", hint="it was given at capture")


def arrange(
    signature: ir.Signature, args: Sequence[Any], kwargs: Mapping[str, Any], literal: Callable[[ir.Arg], Any]
) -> Arguments:
    """The same call with arguments by position or keyword as `signature.inputs` has them.

    Raises ArgumentError WIR926 for a missing, repeated or unknown argument, and for one that was left to its default
    at capture and has another value now.
    """
    if not signature.parameters:
        return tuple(args), dict(kwargs)
    positional, keywords = signature.inputs.children
    count, keys = len(positional.children), [str(k) for k in tree_keys(keywords)]
    rest = {**kwargs}
    given = _by_position(signature.parameters, args, rest, count)
    extra = tuple(args[len(given) :])
    for parameter in signature.parameters:
        if parameter.kind is not ir.ParameterKind.POSITIONAL and parameter.name in rest:
            given[parameter.name] = rest.pop(parameter.name)
    by_position = [p for p in signature.parameters if p.kind is not ir.ParameterKind.KEYWORD][:count]
    arranged = tuple(_take(p, given, literal) for p in by_position) + extra
    named = {p.name: p for p in signature.parameters}
    chosen = {
        key: _take(named[key], given, literal) if key in named else rest.pop(key)
        for key in keys
        if key in named or key in rest
    }
    for name, value in given.items():  # left to their defaults at capture
        expect_static(name, value, literal(named[name].default))
    return arranged, {**chosen, **rest}


def _by_position(
    parameters: Sequence[ir.Parameter], args: Sequence[Any], rest: Mapping[str, Any], count: int
) -> dict[str, Any]:
    """The arguments given by position, by name; further ones must be as many as were captured."""
    positional = [p for p in parameters if p.kind is not ir.ParameterKind.KEYWORD]
    given = {p.name: value for p, value in zip(positional, args)}
    extra = max(0, count - len(positional))
    if len(args) - len(given) not in ({extra} if extra else {0}):
        raise ArgumentError(
            "WIR926", f"arguments: expected at most {len(positional) + extra}, got {len(args)}"
        )
    for name in given:
        if name in rest and any(p.name == name and p.kind is ir.ParameterKind.ANY for p in parameters):
            raise ArgumentError("WIR926", f"argument {name} is given twice")
    return given


def _take(parameter: ir.Parameter, given: dict[str, Any], literal: Callable[[ir.Arg], Any]) -> Any:
    if parameter.name in given:
        return given.pop(parameter.name)
    if parameter.required:
        fail_missing(parameter.name)
    return literal(parameter.default)

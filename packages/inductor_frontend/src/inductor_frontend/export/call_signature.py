"""The parameters of the model's own function, so that programs may be called as the model is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from inductor_frontend.convert import literal
from inductor_frontend.errors import ConversionError
from wrapper_ir import ir

# Any in this file: the model's own function and arguments.
_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: ir.ParameterKind.POSITIONAL,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: ir.ParameterKind.ANY,
    inspect.Parameter.KEYWORD_ONLY: ir.ParameterKind.KEYWORD,
}
_EMPTY = inspect.Parameter.empty


def parameters_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], *, static: bool
) -> tuple[ir.Parameter, ...]:
    """All parameters but `*args` and `**kwargs`; none where nothing is known about them.

    A parameter may be left out where capture used its default, or was given a plain value that equals it, or one that
    is baked in (`static`: integers are) where the model's own function has no default.
    """
    try:
        signature = inspect.signature(function)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a builtin, or a signature that is not the function's own
        return ()
    found: list[ir.Parameter] = []
    by_keyword = False
    for parameter in signature.parameters.values():
        if parameter.kind not in _KINDS:
            continue
        kind = ir.ParameterKind.KEYWORD if by_keyword else _KINDS[parameter.kind]
        made = _parameter(parameter, kind, given, static)
        if made is None:
            by_keyword = True  # the inputs after it cannot be passed by position any more
        else:
            found.append(made)
    return tuple(found)


def _parameter(
    parameter: inspect.Parameter, kind: ir.ParameterKind, given: Mapping[str, Any], static: bool
) -> ir.Parameter | None:
    """None for a default that cannot be written down, of which a call cannot be told that it is the same."""
    name = parameter.name
    known, default = _literal(parameter.default)
    if name not in given:
        return ir.Parameter(name=name, kind=kind, required=False, default=default) if known else None
    is_plain, value = _literal(given[name])
    baked_in = parameter.default is _EMPTY and (static or type(given[name]) is not int)
    if is_plain and (baked_in or (known and default == value)):
        return ir.Parameter(name=name, kind=kind, required=False, default=value)
    return ir.Parameter(name=name, kind=kind)


def _literal(value: object) -> tuple[bool, ir.Arg]:
    """(whether it is a plain value, the value as a literal)."""
    if value is _EMPTY or isinstance(value, (list, tuple)):  # structures are taken apart, not compared
        return False, None
    try:
        return True, literal(value)
    except ConversionError:
        return False, None

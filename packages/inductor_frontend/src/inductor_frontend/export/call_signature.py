"""The parameters of the model's function, so that programs accept the same calls as the model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from inductor_frontend.convert import literal
from inductor_frontend.errors import ConversionError
from wrapper_ir import ir

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: ir.ParameterKind.POSITIONAL,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: ir.ParameterKind.ANY,
    inspect.Parameter.KEYWORD_ONLY: ir.ParameterKind.KEYWORD,
}
_EMPTY = inspect.Parameter.empty


def parameters_of(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object], *, static: bool
) -> tuple[ir.Parameter, ...]:
    """Returns all parameters except `*args` and `**kwargs`; none if the function has no signature.

    A parameter is optional if capture used its default, or a plain value equal to it. It is also optional if
    the function has no default and capture specialized on the value (if `static`, on integers too).
    """
    try:
        signature = inspect.signature(function)
        arguments = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a builtin, or a wrong `__signature__`
        return ()
    parameters: list[ir.Parameter] = []
    by_keyword = False
    for parameter in signature.parameters.values():
        if parameter.kind not in _KINDS:
            continue
        kind = ir.ParameterKind.KEYWORD if by_keyword else _KINDS[parameter.kind]
        entry = _parameter(parameter, kind, arguments, static)
        if entry is None:
            by_keyword = True  # later inputs can no longer be passed by position
        else:
            parameters.append(entry)
    return tuple(parameters)


def _parameter(
    parameter: inspect.Parameter, kind: ir.ParameterKind, arguments: Mapping[str, object], static: bool
) -> ir.Parameter | None:
    """Returns the parameter's entry; None if its default was used and is not a literal that a call can
    compare."""
    name = parameter.name
    has_literal, default = _literal(parameter.default)
    if name not in arguments:
        return ir.Parameter(name=name, kind=kind, required=False, default=default) if has_literal else None
    is_plain, value = _literal(arguments[name])
    baked_in = parameter.default is _EMPTY and (static or type(arguments[name]) is not int)
    if is_plain and (baked_in or (has_literal and default == value)):
        return ir.Parameter(name=name, kind=kind, required=False, default=value)
    return ir.Parameter(name=name, kind=kind)


def _literal(value: object) -> tuple[bool, ir.Arg]:
    """Returns (whether the value is plain, the value as a literal)."""
    if value is _EMPTY or isinstance(value, (list, tuple)):  # structures are flattened, not compared
        return False, None
    try:
        return True, literal(value)
    except ConversionError:
        return False, None

"""Bridges: operators through which libraries call those that torch's stable dispatcher does not accept.

`sources/bridge.py` decides which operators need one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from wrapper_ir import ir
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.operators.policy import inner_operator, runs_operator

# Any in this file: arguments and results of operators


@functools.cache
def register_bridge(operator: str, schema: str) -> None:
    """Registers an operator with `schema` that calls `operator`, once a process."""
    library = _library()
    torch.library.define(schema.partition("(")[0], schema[schema.index("(") :], lib=library)
    target, run, own = _run_by(operator) if runs_operator(operator) else _plain(operator)
    arguments = target._schema.arguments
    numbers = [i for i, a in enumerate(arguments, own) if "number" in str(a.type)]  # torch's name of a Scalar
    first = own + sum(not a.kwarg_only for a in arguments)
    names = [a.name for a in arguments[first - own :]]
    count = len(torch._C.parse_schema(schema).returns)

    def call(*args: Any) -> Any:
        values = list(args)
        for i in numbers:
            values[i] = _number(values[i])
        result = run(*values[:first], **dict(zip(names, values[first:])))
        return (*result, *reversed(result)) if isinstance(result, tuple) and len(result) < count else result

    torch.library.impl(schema.partition("(")[0], "CompositeExplicitAutograd", call, lib=library)


def _plain(operator: str) -> tuple[torch._ops.OpOverload, Callable[..., Any], int]:
    """Returns an operator, a function that calls it, and the number of arguments before the operator's."""
    overload = _overload(ir.overload_path(operator))
    return overload, overload, 0


def _run_by(operator: str) -> tuple[torch._ops.OpOverload, Callable[..., Any], int]:
    """Returns the same for an operator that runs another one from a random state, or saves that state.

    Raises NotSupportedError WIR914.
    """
    _, outer, overload = ir.overload_path(operator)
    try:
        inner = _overload(inner_operator(overload) or ())
        runner: Any = getattr(torch.ops.higher_order, outer)
    except (AttributeError, RuntimeError) as error:
        raise NotSupportedError(
            "WIR914",
            f"torch has no operator {operator}: {error}",
            hint="import the library that registers the operator before loading the program",
        ) from error
    if outer == "run_with_rng_state":
        return inner, lambda state, *args, **kwargs: runner(state, inner, *args, **kwargs), 1

    def saving(*args: Any, **kwargs: Any) -> Any:
        state, result = runner(inner, *args, **kwargs)
        return (state, *result) if isinstance(result, tuple) else (state, result)

    return inner, saving, 0


def _overload(path: Sequence[str]) -> torch._ops.OpOverload:
    node: object = torch.ops
    for part in path:
        node = getattr(node, part)  # by string: a program's operator
    if not isinstance(node, torch._ops.OpOverload):
        raise AttributeError(f"{'.'.join(path)!r} names no operator")
    return node


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(one) for one in value]
    return None if value is None else value.item()


@functools.cache
def _library() -> torch.library.Library:
    return torch.library.Library("wrapper_ir_cpp", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's

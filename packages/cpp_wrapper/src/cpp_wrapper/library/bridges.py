"""Operators by which libraries call those that torch's stable dispatcher does not take: `sources/bridge.py` says which."""

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
    """Registers an operator with `schema` that calls `operator`. A process does so once."""
    library = _library()
    torch.library.define(schema.partition("(")[0], schema[schema.index("(") :], lib=library)
    called, run, own = _run_by(operator) if runs_operator(operator) else _plain(operator)
    arguments = called._schema.arguments
    numbers = [
        i for i, a in enumerate(arguments, own) if "number" in str(a.type)
    ]  # what torch calls a Scalar
    first = own + sum(not a.kwarg_only for a in arguments)
    names = [a.name for a in arguments[first - own :]]
    count = len(torch._C.parse_schema(schema).returns)

    def call(*given: Any) -> Any:
        values = list(given)
        for i in numbers:
            values[i] = _number(values[i])
        made = run(*values[:first], **dict(zip(names, values[first:])))
        return (*made, *reversed(made)) if isinstance(made, tuple) and len(made) < count else made

    torch.library.impl(schema.partition("(")[0], "CompositeExplicitAutograd", call, lib=library)


def _plain(operator: str) -> tuple[torch._ops.OpOverload, Callable[..., Any], int]:
    """An operator, what calls it, and how many arguments that takes before the operator's."""
    found = _overload(ir.overload_path(operator))
    return found, found, 0


def _run_by(operator: str) -> tuple[torch._ops.OpOverload, Callable[..., Any], int]:
    """The operator that another one runs from a random state, or saving it. Raises NotSupportedError WIR914."""
    _, outer, overload = ir.overload_path(operator)
    try:
        found = _overload(inner_operator(overload) or ())
        runner: Any = getattr(torch.ops.higher_order, outer)
    except (AttributeError, RuntimeError) as error:
        raise NotSupportedError(
            "WIR914",
            f"torch has no operator {operator}: {error}",
            hint="import the library that registers the operator before loading the program",
        ) from error
    if outer == "run_with_rng_state":
        return found, lambda state, *args, **kwargs: runner(state, found, *args, **kwargs), 1

    def saving(*args: Any, **kwargs: Any) -> Any:
        state, made = runner(found, *args, **kwargs)
        return (state, *made) if isinstance(made, tuple) else (state, made)

    return found, saving, 0


def _overload(path: Sequence[str]) -> torch._ops.OpOverload:
    found: Any = torch.ops
    for part in path:
        found = getattr(found, part)  # by string: a program's operator
    if not isinstance(found, torch._ops.OpOverload):
        raise AttributeError(f"{'.'.join(path)!r} names no operator")
    return found


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(one) for one in value]
    return None if value is None else value.item()


@functools.cache
def _library() -> torch.library.Library:
    return torch.library.Library("wrapper_ir_cpp", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's

"""Operators by which libraries call those that torch's stable dispatcher does not take: `sources/bridge.py` says which."""

from __future__ import annotations

import functools
from typing import Any

import torch

from wrapper_ir.schemas import overload_path

__all__ = ["register_bridge"]

# Any in this file: arguments and results of operators


@functools.cache
def register_bridge(operator: str, schema: str) -> None:
    """Registers an operator with `schema` that calls `operator`. A process does so once."""
    library = _library()
    torch.library.define(schema.partition("(")[0], schema[schema.index("(") :], lib=library)
    found: Any = torch.ops
    for part in overload_path(operator):
        found = getattr(found, part)  # by string: a program's operator
    called: torch._ops.OpOverload = found
    arguments = called._schema.arguments
    numbers = [i for i, a in enumerate(arguments) if "number" in str(a.type)]  # what torch calls a Scalar
    first = sum(not a.kwarg_only for a in arguments)
    names = [a.name for a in arguments[first:]]
    parsed = torch._C.parse_schema(schema)
    is_mirrored = len(parsed.returns) > len(called._schema.returns)

    def call(*given: Any) -> Any:
        values = list(given)
        for i in numbers:
            values[i] = _number(values[i])
        made = called(*values[:first], **dict(zip(names, values[first:])))
        return (*made, *reversed(made)) if is_mirrored else made

    torch.library.impl(schema.partition("(")[0], "CompositeExplicitAutograd", call, lib=library)


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(one) for one in value]
    return None if value is None else value.item()


@functools.cache
def _library() -> torch.library.Library:
    return torch.library.Library("wrapper_ir_cpp", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's

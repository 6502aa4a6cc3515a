"""Compares operators of a library with the installed ones: torch's stable dispatcher does not check
arguments.

Torch's loaders do not compare them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from wrapper_ir import ir
from wrapper_ir.errors import NotSupportedError


def require_operators(facts: Mapping[str, Any]) -> None:  # Any: JSON
    """Compares the operators that a library calls with torch's.

    Raises NotSupportedError WIR914 for a missing operator, and WIR919 for one with undeclared effects or
    other arguments.
    """
    for fields in facts["operators"]:
        tags = tuple(map(ir.ExternTag, fields["tags"]))
        extern = ir.ExternDef(schema=fields["schema"], tags=tags, symmetric=tuple(fields["symmetric"]))
        if installed := _installed(extern.name):
            ir.require_effects(extern, installed, extern.symmetric)
    for name, (arguments, returns) in facts["boxed"].items():
        _require_types(name, arguments, returns)


def _installed(name: str) -> str:
    """Returns the schema of the installed operator of a name; '' if none is."""
    base, _, overload = name.partition(".")
    try:
        return str(torch._C._get_schema(base, "" if overload == "default" else overload))
    except RuntimeError:
        return ""


def _require_types(name: str, arguments: Sequence[str], returns: Sequence[str]) -> None:
    installed = _installed(name)
    if not installed:
        hint = "import the library that registers the operator before loading the program"
        raise NotSupportedError("WIR914", f"torch has no operator {name}", hint=hint)
    schema = ir.parse_schema(installed)
    fits = _plain(arguments) == _plain([arg.type for arg in schema.args])
    if not fits or _plain(returns) != _plain([one.type for one in schema.returns]):
        raise NotSupportedError(
            "WIR919",
            f"operator {name} is called as ({', '.join(arguments)}) -> ({', '.join(returns)}), "
            "and installed with another schema",
            hint=f"declare {installed}",
        )


def _plain(types: Sequence[str]) -> list[str]:
    """Returns types as the dispatcher distinguishes them: symbolic numbers are numbers, lists have any
    length.
    """
    return [re.sub(r"\[\d+\]", "[]", type.replace("SymInt", "int")) for type in types]

"""Functions that saved graphs may call, by name. A file can name these, operators and kernels only."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from fx_converter import targets
from fx_converter.graph.numbers import CALLS
from wrapper_ir_torch import FAST_EMPTY, FAST_VIEW

Function: TypeAlias = Callable[..., Any]  # Any: each has another signature


def _qualified(function: Function) -> str:
    """Returns the qualified name: `operator.add`, `math.floor`, `round`, `torch.sym_min`."""
    name = function.__name__
    for module, prefix in ((operator, "operator"), (math, "math"), (torch, "torch")):
        if getattr(module, name, None) is function:
            return f"{prefix}.{name}"
    # `and_` and others have another `__name__`; torch's symbolic variants are private
    return next((f"operator.{n}" for n in dir(operator) if getattr(operator, n) is function), name)


def _table() -> dict[str, Function]:
    numbers = [operator.neg, *CALLS.values()]
    own = {f"targets.{name}": getattr(targets, name) for name in targets.__all__}  # their exported names
    table: dict[str, Function] = {_qualified(f): f for f in numbers if f is not targets.truth}
    symbolic = {f"torch.{n}": getattr(torch, n) for n in dir(torch) if n.startswith("_sym_")}
    fast = {f"fast.empty_{device}": f for device, f in FAST_EMPTY.items()} | {"fast.view": FAST_VIEW}
    return {**table, **symbolic, **own, **fast, "operator.getitem": operator.getitem}


FUNCTIONS_BY_NAME: Mapping[str, Function] = _table()
NAMES_OF_FUNCTIONS: Mapping[Function, str] = {f: name for name, f in reversed([*FUNCTIONS_BY_NAME.items()])}

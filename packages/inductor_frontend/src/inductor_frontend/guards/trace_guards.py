"""Guards of a trace: all assumptions about arguments that the program must check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy
from torch.export import ExportedProgram

from inductor_frontend.guards.checks import ModelCheck
from inductor_frontend.guards.guard_code import InputPlace, symbol_places, text_guards
from inductor_frontend.torch_patches.symbol_facts import bound

Bounds = Mapping[str, tuple[int | None, int | None]]
"""Inclusive ranges of symbols by name; None is unbounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceGuards:
    """The checks of a program besides the guards in Inductor's ShapeEnv.

    `promised`: the ranges of symbols that the user specified; None if the caller checks the inputs of every
    call.
    `conditions`: guards over symbols. `places`: the input size or stride that each symbol comes from, by
    name, including replaced symbols. `windows`: names of inputs that may start anywhere in their storage.
    `checks`: the model's assertions.
    """

    promised: Bounds | None = None
    conditions: Sequence[sympy.Basic] = ()
    places: Mapping[str, InputPlace] = field(default_factory=dict)
    windows: frozenset[str] = frozenset()
    checks: Sequence[ModelCheck] = ()


def guards_of(
    exported: ExportedProgram, checks: Sequence[ModelCheck], windows: frozenset[str]
) -> TraceGuards:
    """Returns the guards of an exported program. Raises CaptureError FE101 for a guard that cannot be
    parsed."""
    constraints = exported.range_constraints.items()
    return TraceGuards(
        promised={str(s): (bound(r.lower), bound(r.upper)) for s, r in constraints},
        conditions=text_guards(exported),
        places=symbol_places(exported),
        windows=windows,
        checks=checks,
    )

"""What a trace relied on: everything that a program must check of its arguments, before there is a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy
from torch.export import ExportedProgram

from inductor_frontend.guards.checks import ModelCheck
from inductor_frontend.guards.guard_code import InputPlace, symbol_places, text_guards
from inductor_frontend.torch_patches.symbol_facts import bound

Bounds = Mapping[str, tuple[int | None, int | None]]
"""Inclusive ranges of symbols by name; None is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceGuards:
    """What a program checks besides what Inductor's shape environment knows.

    `promised` are the ranges that the caller promised for symbols, or None where the caller itself checks the inputs of
    every call; `conditions` hold of the symbols; `places` say where symbols come from, by name, also those that others have
    replaced since; `windows` name inputs that may begin anywhere in their storage; `checks` are the model's own.
    """

    promised: Bounds | None = None
    conditions: Sequence[sympy.Basic] = ()
    places: Mapping[str, InputPlace] = field(default_factory=dict)
    windows: frozenset[str] = frozenset()
    checks: Sequence[ModelCheck] = ()


def guards_of(
    exported: ExportedProgram, checks: Sequence[ModelCheck], windows: frozenset[str]
) -> TraceGuards:
    """The guards of an exported program. Raises CaptureError FE101 for a guard that cannot be read."""
    constraints = exported.range_constraints.items()
    return TraceGuards(
        promised={str(s): (bound(r.lower), bound(r.upper)) for s, r in constraints},
        conditions=text_guards(exported),
        places=symbol_places(exported),
        windows=windows,
        checks=checks,
    )

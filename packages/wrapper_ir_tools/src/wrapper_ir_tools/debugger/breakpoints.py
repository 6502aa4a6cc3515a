"""Stopping conditions of a run: locations in the program, and expressions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import DebugError
from wrapper_ir.expr import SymKind
from wrapper_ir_tools.debugger.computed_values import computed_values
from wrapper_ir_tools.debugger.conditions import Condition, parse_condition

FORMS = (
    "`12`, `@function:12`, `@kernel`, `%value`, `file.py:30`, the name of an operator, node or module, "
    "or `if CONDITION`"
)

_NUMBER = re.compile(r"(?:@(?P<function>.+):)?(?P<position>\d+)")
_PLACE = re.compile(r"(?P<file>[^@%].*):(?P<line>\d+)")

Places = frozenset[tuple[str, int]]
"""Functions and positions of ops."""


@dataclass(slots=True)
class Breakpoint:
    """A stop before the ops at `places` (None: any op) if the condition is true. `hits` counts the stops."""

    number: int
    text: str
    places: Places | None
    condition: Condition | None = None
    hits: int = 0


def parse_breakpoint(number: int, text: str, analyses: Analyses) -> Breakpoint:
    """Parses `SPEC`, `SPEC if CONDITION` or `if CONDITION`; FORMS lists the forms of SPEC, and names may be
    globs.

    Raises DebugError WIR957 if the program has no such location, and ParseError for an invalid condition.
    """
    place, separator, rest = text.partition("if ") if text.startswith("if ") else text.partition(" if ")
    program = analyses.program
    condition = condition_of(rest, program) if separator else None
    places = _places(place.strip(), analyses) if place.strip() else None
    if places is None and condition is None:
        raise DebugError("WIR957", "a breakpoint needs a place or a condition", hint=FORMS)
    if places is not None and not places:
        raise DebugError("WIR957", f"the program has no {place.strip()!r}", hint=FORMS)
    return Breakpoint(number, text, places, condition)


def condition_of(text: str, program: ir.Program) -> Condition:
    """Parses a condition over all symbols and values of a program.

    If several functions have a value of the same name, the one of `main` is used.
    """
    values: dict[str, ir.Value] = {c.value.name: c.value for c in program.constants}
    for function in reversed(program.functions):
        values |= {v.name: v for v in ir.definitions(function)}
    kinds: Mapping[str, SymKind] = {s.name: s.kind for s in program.symbols}
    return parse_condition(text.strip(), kinds, values)


def _places(text: str, analyses: Analyses) -> Places:
    if numbered := _NUMBER.fullmatch(text):
        name = numbered["function"] or analyses.program.main.name
        function = analyses.functions.get(name)
        position = int(numbered["position"])
        exists = function is not None and position < len(function.body)
        return frozenset({(name, position)} if exists else ())
    return frozenset(
        (function.name, position)
        for function in analyses.program.functions
        for position in range(len(function.body))
        if _matches(text, function, position, analyses)
    )


def _matches(text: str, function: ir.Function, position: int, analyses: Analyses) -> bool:
    op = function.body[position]
    if text.startswith("%"):
        return any(
            fnmatch.fnmatchcase(v.name, text[1:]) for v in computed_values(function, position, analyses)
        )
    if text.startswith("@"):
        return isinstance(op, ir.Launch) and fnmatch.fnmatchcase(op.kernel, text[1:])
    if place := _PLACE.fullmatch(text):
        return any(_same_place(location, place["file"], place["line"]) for location in op.prov.locations)
    names = (ir.callee_name(op), *op.prov.nodes, *op.prov.ops, *op.prov.modules)
    return any(fnmatch.fnmatchcase(name, text) for name in names)


def _same_place(location: str, file: str, line: str) -> bool:
    path, _, number = location.rpartition(":")
    return number == line and (path == file or path.endswith(f"/{file}"))

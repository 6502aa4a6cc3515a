"""Operators of the native runtime for several instruction sets: a copy for each, chosen at a first call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cpp_wrapper.kernels.isa import isa_build_args, required_features
from cpp_wrapper.sources.kernels import OWN_COPIES, KernelUnit
from cpp_wrapper.sources.native import NativeOperator
from wrapper_ir import ir, print_program
from wrapper_ir.support.quoting import cpp_string

_SMALL_FLOATS, _WITHOUT_SMALL_FLOATS = re.compile(r"\bb?f16\b"), "-DWIR_WITHOUT_SMALL_FLOATS"
"""The types in the text form, and the flag of programs without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyUnit:
    """A translation unit of operators, and the flags for its instruction set.

    `level` is the number of the copy, if there are several.
    """

    name: str
    flags: tuple[str, ...]
    level: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorLevel:
    """The flags of an instruction set, and the processor's features that it needs."""

    flags: tuple[str, ...]
    features: frozenset[str]


def operator_levels(units: Sequence[KernelUnit], isas: Sequence[str]) -> tuple[OperatorLevel, ...]:
    """Returns the instruction sets of a program's kernels, those with most features first.

    Those of a program without kernels are `isas`. Raises IsaError CPP202 for an unknown one.
    """
    levels: dict[tuple[str, ...], OperatorLevel] = {}
    for unit in units:
        features = frozenset().union(*(required_features(k.name, k.isa) for k in unit.kernels))
        levels[unit.flags] = OperatorLevel(unit.flags, features)
    if not units:
        sets = [() if isa == "generic" else (isa,) for isa in isas or ("generic",)]
        own = OWN_COPIES if len(sets) > 1 else ()
        for one in sets:
            flags = (*isa_build_args("operators", one), *own)
            levels[flags] = OperatorLevel(flags, required_features("operators", one))
    return tuple(sorted(levels.values(), key=lambda level: (-len(level.features), level.flags)))


def without_unused_types(levels: Sequence[OperatorLevel], program: ir.Program) -> tuple[OperatorLevel, ...]:
    """Returns levels whose operators leave out code for element types that the program does not have.

    The program's text names every type of its tensors and arguments.
    """
    if _SMALL_FLOATS.search(print_program(program)):
        return tuple(levels)
    return tuple(replace(level, flags=(*level.flags, _WITHOUT_SMALL_FLOATS)) for level in levels)


def family_units(names: Iterable[str], levels: Sequence[OperatorLevel]) -> tuple[FamilyUnit, ...]:
    """Returns the units of files of operators for each instruction set."""
    numbered = len(levels) > 1
    return tuple(
        FamilyUnit(name=name, flags=level.flags, level=number if numbered else None)
        for number, level in enumerate(levels)
        for name in names
    )


def write_choices(operators: Sequence[NativeOperator], levels: Sequence[OperatorLevel]) -> list[str]:
    """Returns functions that call the copy of an operator for the processor; none if there is one copy."""
    if len(levels) <= 1:
        return []
    needs = "".join(f"{' '.join(sorted(level.features))}|" for level in levels)
    lines = []
    for operator in operators:
        copies = [f"{operator.function}_{number}" for number in range(len(levels))]
        arguments = ", ".join(text.rpartition(" ")[2] for text in operator.parameters.split(", "))
        lines += [
            f"#ifndef WIR_{operator.function}",
            f"#define WIR_{operator.function}  // programs of one unit have one",
            *(f"int32_t {copy}({operator.parameters});" for copy in copies),
            f"int32_t {operator.function}({operator.parameters}) {{",
            f"  static const auto chosen = choose({cpp_string(needs)}, {{{', '.join(copies)}}});",
            f"  return chosen({arguments});",
            "}",
            "#endif",
        ]
    return lines

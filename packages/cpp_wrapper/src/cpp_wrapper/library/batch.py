"""Many programs in one build: compilers spend most time on headers, which a batch reads once.

All programs share one unit; so do their kernels. Each program still becomes a separate library: the libraries
of a batch are linked from the same objects and differ in the symbols of their program. Native programs share
units with those whose operators are for the same instruction sets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from cpp_wrapper.kernels.compile import PROGRAM
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.source import Member
from cpp_wrapper.kernels.toolchain import find_toolchain
from cpp_wrapper.library.build import Build, needed_libraries
from cpp_wrapper.settings import Settings, read_settings
from cpp_wrapper.sources.kernels import kernel_units
from cpp_wrapper.sources.program import Sources
from wrapper_ir.json.kernel_hash import content_hash

_MAIN, _DESCRIPTION = "program.cpp", "description.cpp"
_HEADERS = ("steps.h", "helpers.h", "symbols.h", "gpu.h")
_DESCRIBED = ("wir_model_description", "wir_result_order")
_WEIGHTS = ("wir_weights_file", "wir_weights_id")
_NAMES = ("program", PROGRAM, *_DESCRIBED, *_WEIGHTS)
"""Names that every program defines, and those that native ones do."""


def build_libraries(
    programs: Sequence[tuple[Sources, Path]], options: CppOptions, settings: Settings | None = None
) -> None:
    """Writes a library for each program. Raises the errors of `build_library`, for any of the programs."""
    settings = settings or read_settings()
    groups: dict[object, list[tuple[Sources, Path]]] = {}
    for program in programs:
        groups.setdefault(_levels(program[0]), []).append(program)
    for group in groups.values():
        _build_group(group, options, settings)


def _levels(sources: Sources) -> object:
    """Returns the instruction sets of a program's operators, which are those of its unit's others."""
    return sources.runtime, frozenset((family.level, family.flags) for family in sources.families)


def _build_group(programs: Sequence[tuple[Sources, Path]], options: CppOptions, settings: Settings) -> None:
    sources = _merged([sources for sources, _ in programs])
    build = Build(sources, options, settings, find_toolchain(settings.compiler))
    objects = build.objects()
    for number, (own, path) in enumerate(programs):
        aliases = [(name, f"{name}_{number}") for name in _symbols(own)]
        build.write(own, build.link(objects, needed_libraries(own), aliases), path)


def _symbols(sources: Sources) -> Sequence[str]:
    """Returns the symbols of a program that files of all libraries refer to."""
    described = _DESCRIBED if _DESCRIPTION in sources.files else ()
    return (PROGRAM, *described, *(_WEIGHTS if sources.weights is not None else ()))


def _merged(programs: Sequence[Sources]) -> Sources:
    """Merges all programs into one. The names of each end with its number."""
    members: dict[str, Member] = {}
    for kernel in (kernel for sources in programs for unit in sources.units for kernel in unit.kernels):
        key = content_hash(kernel)
        members.setdefault(key, Member(key, kernel))
    units, texts = kernel_units([(member,) for member in members.values()])
    own = {unit.name for sources in programs for unit in sources.units} | {_DESCRIPTION}
    common = {n: text for one in programs for n, text in one.files.items() if n not in own}
    texts[_MAIN] = _joined([one.files[_MAIN] for one in programs], _HEADERS)
    if _DESCRIPTION in programs[0].files:  # a header of one and a header of the other define the same names
        texts[_DESCRIPTION] = _joined([one.files[_DESCRIPTION] for one in programs])
    families = {family: None for one in programs for family in one.families}
    return dataclasses.replace(programs[0], files=common | texts, units=units, families=tuple(families))


def _joined(texts: Sequence[str], headers: Sequence[str] = ()) -> str:
    """Returns the texts of all programs, whose names end with a program's number."""
    lines = [f'#include "{name}"' for name in headers]
    for number, text in enumerate(texts):
        lines += [f"#define {name} {name}_{number}" for name in _NAMES]
        lines.append(text)
        lines += [f"#undef {name}" for name in _NAMES]
    return "\n".join(lines) + "\n"

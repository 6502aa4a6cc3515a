"""Many programs in one build: compilers spend most time on headers, which a batch reads once.

All programs share one unit; so do their kernels. Each program still becomes a separate library: the libraries
of a batch are linked from the same objects and differ in their program symbol.
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

_MAIN = "program.cpp"
_HEADERS = ("steps.h", "helpers.h", "symbols.h", "gpu.h")
_NAMES = ("program", PROGRAM)
"""Names that every program defines."""


def build_libraries(
    programs: Sequence[tuple[Sources, Path]], options: CppOptions, settings: Settings | None = None
) -> None:
    """Writes a library for each program. Raises the errors of `build_library`, for any of the programs."""
    if not programs:
        return
    settings = settings or read_settings()
    sources = _merged([sources for sources, _ in programs])
    build = Build(sources, options, settings, find_toolchain(settings.compiler))
    objects = build.objects()
    for number, (own, path) in enumerate(programs):
        build.write(own, build.link(objects, needed_libraries(own), f"{PROGRAM}_{number}"), path)


def _merged(programs: Sequence[Sources]) -> Sources:
    """Merges all programs into one. The names of each end with its number."""
    members: dict[str, Member] = {}
    for kernel in (kernel for sources in programs for unit in sources.units for kernel in unit.kernels):
        key = content_hash(kernel)
        members.setdefault(key, Member(key, kernel))
    units, texts = kernel_units([(member,) for member in members.values()])
    of_kernels = {unit.name for sources in programs for unit in sources.units}
    common = {n: text for one in programs for n, text in one.files.items() if n not in of_kernels}
    lines = [f'#include "{name}"' for name in _HEADERS]
    for number, sources in enumerate(programs):
        lines += [f"#define {name} {name}_{number}" for name in _NAMES]
        lines.append(sources.files[_MAIN])
        lines += [f"#undef {name}" for name in _NAMES]
    files = common | {_MAIN: "\n".join(lines) + "\n"} | texts
    families = {family: None for one in programs for family in one.families}
    return dataclasses.replace(programs[0], files=files, units=units, families=tuple(families))

"""The files of a library besides its program and kernels: shared ones, and those of the native runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cpp_wrapper.kernels.isa import ISAS, isa_build_args
from cpp_wrapper.kernels.options import OperatorSource
from cpp_wrapper.runtime_build import NATIVE_RUNTIME
from cpp_wrapper.sources.description import HEADER, model_header
from cpp_wrapper.sources.kernels import OWN_COPIES, KernelUnit
from cpp_wrapper.sources.native import operator_files
from cpp_wrapper.sources.operator_levels import FamilyUnit, OperatorLevel, family_units
from cpp_wrapper.sources.scope import ProgramScope
from cpp_wrapper.sources.texts import TEXTS, cuda_texts, native_texts

_PRODUCTS = "cuda_products"
"""The family of matmuls on a device."""
_OF_DEVICES = ("driver.h", "driver.cpp", "gpu.cpp", "page_reader.h")
_OF_MATMULS = ("gpu_matmuls.h", "gpu_matmuls.cpp", "matrices.h", "graphs.h")
_OF_GRAPHS = ("capture.h", "graphs.cpp")


def library_files(
    module: ProgramScope,
    units: Sequence[KernelUnit],
    levels: Sequence[OperatorLevel],
    sources: Sequence[OperatorSource],
) -> tuple[tuple[FamilyUnit, ...], dict[str, str]]:
    """Returns the units of operators, and the texts of files by name.

    `levels` are the instruction sets of operators, `sources` those of the user.
    """
    unused = _unused_files(module)
    files = {n: text for n, text in TEXTS.items() if not n.endswith(".txt") and n not in unused}
    if module.native is None:
        return (), files
    host = [one.family for one in module.called.values() if not one.is_of_device]
    operators, vectors = operator_files(host, sources), _vector_functions(units)
    on_device = operator_files(_device_families(module), ())
    families = (*family_units(operators, levels), *vectors)
    families += tuple(FamilyUnit(name=name, flags=()) for name in on_device)
    files = {**_native_files(files, module), **operators, **on_device, HEADER: model_header()}
    return families, files | {unit.name: native_texts()[unit.name] for unit in vectors}


def _unused_files(module: ProgramScope) -> set[str]:
    """Returns the shared files that a program does not need."""
    unused = set() if module.gpu else {*_OF_DEVICES}
    multiplies = bool(module.graphed.numbers) or _PRODUCTS in _device_families(module)
    unused |= set() if multiplies else {*_OF_MATMULS}
    unused |= set() if module.graphed.numbers else {*_OF_GRAPHS}
    return unused if module.native is not None else unused - {"matrices.h"}


def _device_families(module: ProgramScope) -> tuple[str, ...]:
    """Returns the families of a native program's device; none for a program of the CPU."""
    if module.gpu is None or module.native is None:
        return ()
    families = {one.family for one in module.called.values() if one.is_of_device}
    families |= {_PRODUCTS} if module.graphed.numbers else set()
    return ("cuda_memory", "cuda_copies", *sorted(families))


def _native_files(files: Mapping[str, str], module: ProgramScope) -> dict[str, str]:
    """Returns the files of native libraries: shared ones, and those of the native runtime."""
    own = {**files, **native_texts(), **(cuda_texts() if module.gpu is not None else {})}
    names = {n for n in own if n in NATIVE_RUNTIME or n.endswith(".h")}
    if module.gpu is not None:
        names |= {*_OF_DEVICES, *_OF_MATMULS, *_OF_GRAPHS} & files.keys()
    return {n: text for n, text in own.items() if n in names - {"python.h"}}


def _vector_functions(units: Sequence[KernelUnit]) -> tuple[FamilyUnit, ...]:
    """Returns units of the functions that kernels call by Sleef's names, one for each of their levels."""
    families: dict[tuple[str, ...], FamilyUnit] = {}
    for level in (name for name, isa in ISAS.items() if isa.capability):
        flags = isa_build_args("", [level])
        for unit in units:
            if flags[-1] in unit.flags:
                own = tuple(flag for flag in OWN_COPIES if flag in unit.flags)
                families[flags] = FamilyUnit(name="sleef.cpp", flags=(*flags, *own))
    return tuple(families.values())

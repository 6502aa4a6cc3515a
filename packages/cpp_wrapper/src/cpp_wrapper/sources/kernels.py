"""Writes kernels: units for each instruction set, and the functions that launch them.

A kernel may have several sources, those with the widest instructions first. All are compiled; the first
launch chooses the first that the processor can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cpp_wrapper.kernels.isa import isa_build_args, required_features
from cpp_wrapper.kernels.source import Member, check_kernel, groups, is_shareable, shared_unit, single_unit
from cpp_wrapper.sources.scope import ProgramScope
from wrapper_ir import ir
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.support.quoting import cpp_string

_JOBS = 4
"""Maximum number of units of kernels for each instruction set."""

OWN_COPIES = ("-fno-weak",)
"""Keeps inline functions in their unit: the linker would otherwise use one copy, compiled for one
instruction set.

Only g++ has this flag: other compilers refuse such libraries.
"""

Levels = tuple[Member, ...]
"""One kernel for each source of a kernel, in order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUnit:
    """A translation unit of kernels, the flags for their instruction sets, and the kernels."""

    name: str
    flags: tuple[str, ...]
    kernels: tuple[ir.CppKernel, ...]


def levels_of(kernels: Iterable[ir.KernelDef]) -> dict[str, Levels]:
    """Returns the C++ kernels by name; launches of others are refused later.

    Raises KernelError CPP401 for one that cannot be compiled, IsaError CPP202 for an unknown instruction set.
    """
    levels: dict[str, Levels] = {}
    for kernel in kernels:
        if not isinstance(kernel, ir.CppKernel):
            continue
        check_kernel(kernel)
        alone = [replace(kernel, source=s.source, isa=s.isa, variants=()) for s in kernel.sources]
        levels[kernel.name] = tuple(Member(content_hash(one), one) for one in alone)
    return levels


def kernel_units(levels: Iterable[Levels]) -> tuple[tuple[KernelUnit, ...], dict[str, str]]:
    """Returns units and their text by name. Kernels of the same instruction sets share units."""
    by_flags: dict[tuple[str, ...], dict[str, Member]] = {}
    for member in (member for one in levels for member in one):
        flags = isa_build_args(member.kernel.name, member.kernel.isa)
        by_flags.setdefault(flags, {}).setdefault(member.key, member)
    units: list[KernelUnit] = []
    texts: dict[str, str] = {}
    if len(by_flags) > 1:
        by_flags = {(*flags, *OWN_COPIES): group for flags, group in by_flags.items()}
    for flags, group in by_flags.items():
        for unit in groups(list(group.values()), _JOBS):
            name = f"kernels_{len(units)}.cpp"
            texts[name] = shared_unit(unit) if is_shareable(unit[0].kernel.source) else _alone(unit[0])
            units.append(KernelUnit(name=name, flags=flags, kernels=tuple(m.kernel for m in unit)))
    return tuple(units), texts


def _alone(member: Member) -> str:
    """Returns a unit of one kernel, whose entry has a unique name among units."""
    return f"#define {member.kernel.entry} {member.symbol}_entry\n{single_unit(member)}"


def instruction_rows(levels: Mapping[str, Levels]) -> list[str]:
    """Returns the features that kernels need, without duplicates: those of each source of a kernel, ended
    by `|`.
    """
    rows = dict.fromkeys(_row(one) for one in levels.values())
    return [row for row in rows if not row.endswith("||") and row != "|"]


def _row(levels: Levels) -> str:
    features = (required_features(m.kernel.name, m.kernel.isa) for m in levels)
    return "".join(f"{' '.join(sorted(one))}|" for one in features)


def kernel_function(name: str, levels: Levels, module: ProgramScope) -> list[str]:
    """Returns a function with the kernel's parameters, which calls its trampoline."""
    params = [(module.names(p.name), p) for p in levels[0].kernel.params]
    head = ", ".join(f"{_kernel_type(p)} {text}" for text, p in params)
    slots = ", ".join(_slot(text, p) for text, p in params)
    array = f"const Slot slots[] = {{{slots}}};" if slots else "const Slot* slots = nullptr;"
    call = [f"  {levels[0].symbol}(slots);"]
    if len(levels) > 1:
        symbols = ", ".join(member.symbol for member in levels)
        call = [
            f"  static const Kernel kernel = choose({cpp_string(_row(levels))}, {{{symbols}}});",
            "  kernel(slots);",
        ]
    return [f"void {name}({head}) {{", f"  {array}", *call, "}"]


def _kernel_type(param: ir.KernelParam) -> str:
    if param.kind is ir.ParamKind.POINTER:
        return "void*"
    if param.dtype is ir.DType.BOOL:
        return "bool"
    return "double" if param.dtype.is_floating else "Int"


def _slot(name: str, param: ir.KernelParam) -> str:
    if param.kind is ir.ParamKind.POINTER:
        return f"pointer({name})"
    if param.dtype is ir.DType.BOOL:
        return f"Slot{{.i = {name}}}"
    if param.dtype.is_floating:
        return f"real({name})"
    unsigned = "u" if param.dtype.value.startswith("u") else ""
    c_type = f"{unsigned}int{8 * param.dtype.itemsize}_t"
    message = f"an argument for {param.name} does not fit {param.dtype.value}"
    return f"whole<{c_type}>({name}, {cpp_string(message)})"

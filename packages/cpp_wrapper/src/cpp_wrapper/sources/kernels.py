"""Writes kernels: units for each instruction set, and the functions that launch them.

A kernel may have several sources, the widest instructions first. All are compiled, and the first that the processor can run
is taken when it is first launched.
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
"""Units of kernels at most for each instruction set."""

_OWN_COPIES = ("-fno-weak",)
"""Functions of headers stay in their unit: linked together, one unit would run those that were compiled for the
instructions of another. Only g++ has this flag: other compilers refuse such libraries."""

Levels = tuple[Member, ...]
"""A kernel for each of its sources, in order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUnit:
    """A translation unit of kernels, the flags for their instruction sets, and the kernels."""

    name: str
    flags: tuple[str, ...]
    kernels: tuple[ir.CppKernel, ...]


def levels_of(kernels: Iterable[ir.KernelDef]) -> dict[str, Levels]:
    """The C++ kernels by name; others are refused where they are launched. Raises KernelError CPP401 for one that cannot be
    compiled, IsaError CPP202 for an unknown instruction set."""
    found: dict[str, Levels] = {}
    for kernel in kernels:
        if not isinstance(kernel, ir.CppKernel):
            continue
        check_kernel(kernel)
        alone = [replace(kernel, source=s.source, isa=s.isa, variants=()) for s in kernel.sources]
        found[kernel.name] = tuple(Member(content_hash(one), one) for one in alone)
    return found


def kernel_units(levels: Iterable[Levels]) -> tuple[tuple[KernelUnit, ...], dict[str, str]]:
    """The units, and their text by name: kernels of the same instruction sets share them."""
    by_flags: dict[tuple[str, ...], dict[str, Member]] = {}
    for member in (member for one in levels for member in one):
        flags = isa_build_args(member.kernel.name, member.kernel.isa)
        by_flags.setdefault(flags, {}).setdefault(member.key, member)
    units: list[KernelUnit] = []
    texts: dict[str, str] = {}
    if len(by_flags) > 1:
        by_flags = {(*flags, *_OWN_COPIES): group for flags, group in by_flags.items()}
    for flags, group in by_flags.items():
        for unit in groups(list(group.values()), _JOBS):
            name = f"kernels_{len(units)}.cpp"
            texts[name] = shared_unit(unit) if is_shareable(unit[0].kernel.source) else _alone(unit[0])
            units.append(KernelUnit(name=name, flags=flags, kernels=tuple(m.kernel for m in unit)))
    return tuple(units), texts


def _alone(member: Member) -> str:
    """A unit of one kernel, whose entry has a name of its own among those of other units."""
    return f"#define {member.kernel.entry} {member.symbol}_entry\n{single_unit(member)}"


def instruction_rows(levels: Mapping[str, Levels]) -> list[str]:
    """What the processor must have, each row once: the features of a kernel's sources, `|` after each."""
    rows = dict.fromkeys(_row(one) for one in levels.values())
    return [row for row in rows if not row.endswith("||") and row != "|"]


def _row(levels: Levels) -> str:
    features = (required_features(m.kernel.name, m.kernel.isa) for m in levels)
    return "".join(f"{' '.join(sorted(one))}|" for one in features)


def kernel_function(name: str, levels: Levels, module: ProgramScope) -> list[str]:
    """A function with the kernel's own parameters, and the declaration of what it calls."""
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

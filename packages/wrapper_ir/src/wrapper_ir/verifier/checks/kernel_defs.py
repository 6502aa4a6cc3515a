"""WIR091 and WIR028: what kernel definitions say about themselves, and kernels that are chosen from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr
from wrapper_ir.verifier.checks.multi_kernels import multi_faults
from wrapper_ir.verifier.checks.operator_kernels import operator_faults
from wrapper_ir.verifier.findings import Findings

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_kernels(analyses: Analyses, findings: Findings) -> None:
    """All kernels of a program."""
    for kernel in analyses.program.kernels:
        foreign = list(_foreign_constants(kernel))
        for name, kind in foreign:
            findings.add(
                "WIR001", f"@{kernel.name}: {name} holds a {kind}, which is not a constant of kernels"
            )
        if foreign:
            continue
        for message in _faults(kernel):
            findings.add("WIR091", f"@{kernel.name}: {message}")
        if isinstance(kernel, ir.MultiKernel):
            for message in multi_faults(kernel, analyses.kernels):
                findings.add("WIR028", f"@{kernel.name}: {message}")


def _faults(kernel: ir.KernelDef) -> Iterator[str]:
    names = [p.name for p in kernel.params]
    if len(set(names)) != len(names):
        yield "two parameters have one name"
    params = {p.name: p for p in kernel.params}
    for param in kernel.params:
        yield from _param(param, names)
        yield from _pairs(param, params)
    if isinstance(kernel, ir.CppKernel | ir.TritonKernel) and not kernel.entry.isidentifier():
        yield f"{kernel.entry!r} is not an entry point"
    if isinstance(kernel, ir.CppKernel | ir.TritonKernel):
        yield from _requires(kernel.requires)
    match kernel:
        case ir.TritonKernel():
            yield from _triton(kernel)
        case ir.OperatorKernel():
            yield from operator_faults(kernel)
        case ir.CppKernel() | ir.ForeignKernel() | ir.MultiKernel():
            descriptors = [p.name for p in kernel.params if p.kind is ir.ParamKind.DESCRIPTOR]
            if descriptors and isinstance(kernel, ir.CppKernel):
                yield f"parameter {descriptors[0]} is a descriptor, which only GPUs have"
            if isinstance(kernel, ir.CppKernel):
                yield from _sources(kernel)


def _requires(requires: tuple[ir.Requirement, ...]) -> Iterator[str]:
    names = [one.name for one in requires]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name} is required twice"
    for one in requires:
        if not one.name:
            yield "what is required has a name"
        if one.sha256 and not _SHA256.fullmatch(one.sha256):
            yield f"{one.sha256!r} of {one.name} is not a sha256"


def _sources(kernel: ir.CppKernel) -> Iterator[str]:
    """Which source is taken follows from the host alone."""
    known: set[frozenset[str]] = set()
    for source in kernel.sources:
        isa = frozenset(source.isa)
        if any(before <= isa for before in known):
            shown = ", ".join(source.isa) or "any instruction set"
            yield f"the source for {shown} is never taken: one before it runs wherever it does"
        known.add(isa)


def _param(param: ir.KernelParam, names: list[str]) -> Iterator[str]:
    if param.kind.takes_tensor == (param.access is ir.Access.NONE):
        yield f"parameter {param.name} is a {param.kind.value} with access {param.access.value}"
    if param.divisible < 1:
        yield f"{param.name} cannot be divisible by {param.divisible}"
    if bool(param.block) != (param.kind is ir.ParamKind.DESCRIPTOR):
        yield f"{param.name} is a {param.kind.value} with {len(param.block)} block sizes"


def _pairs(param: ir.KernelParam, params: Mapping[str, ir.KernelParam]) -> Iterator[str]:
    """In place, an element takes the place of another, so both have one size."""
    for word, others in (("alias", param.may_alias), ("overlap", param.may_overlap)):
        for name in others:
            other = params.get(name)
            if other is None:
                yield f"{param.name} may {word} {name}, which is not a parameter"
            elif other is param or not (param.kind.takes_tensor and other.kind.takes_tensor):
                yield f"{param.name} may {word} {name}, and they are not two tensors"
            elif word == "alias" and other.dtype.itemsize != param.dtype.itemsize:
                yield f"{param.name} may alias {name}, whose elements have another size"


# --- Triton


def _foreign_constants(kernel: ir.KernelDef) -> Iterator[tuple[str, str]]:
    """Constants that are no `ConstantValue`, with the classes in them: frontends read constants from text."""
    pairs: list[tuple[str, object]] = []
    if isinstance(kernel, ir.TritonKernel | ir.OperatorKernel):
        pairs += kernel.constants
    if isinstance(kernel, ir.TritonKernel):
        pairs += kernel.options
        for config in kernel.configs:
            pairs += (*config.meta, *config.options)
    for name, value in pairs:
        fault = ir.constant_fault(value)
        if fault is not None:
            yield name, fault


def _triton(kernel: ir.TritonKernel) -> Iterator[str]:
    yield from _order(kernel)
    if not kernel.configs:
        yield "there is no config"
    for config in kernel.configs:
        yield from _config(config)
    known = ir.kernel_symbols(kernel)
    yield from _grid(kernel.grid, known)
    for config in kernel.configs:
        yield from _grid(config.grid, known) if config.grid else ()
    for param in kernel.params:
        yield from _exprs(param.block, known)
    tensors = {p.name for p in kernel.params if p.kind.takes_tensor}
    for word, names in (("restore", kernel.restore), ("reset", kernel.reset)):
        for name in names:
            if name not in tensors:
                yield f"{word} names {name}, which is not a tensor"
    yield from _constants((*kernel.constants, *kernel.options))


def _order(kernel: ir.TritonKernel) -> Iterator[str]:
    """Every parameter of the function has one source: an argument, a constant, or all configs."""
    params, constants = [p.name for p in kernel.params], [name for name, _ in kernel.constants]
    given = [*params, *constants]
    metas = [{name for name, _ in c.meta} for c in kernel.configs]
    for name in kernel.order:
        if name not in given and not all(name in meta for meta in metas):
            yield f"nothing gives parameter {name} of the function its value"
    for name in given:
        if name not in kernel.order:
            yield f"the function has no parameter {name}"
    every = [*given, *kernel.grid_params, *set().union(*metas)]
    twice = {name for name in every if every.count(name) > 1} | {
        name for name in kernel.order if kernel.order.count(name) > 1
    }
    for name in sorted(twice):
        yield f"{name} is given twice"


def _config(config: ir.TritonConfig) -> Iterator[str]:
    if config.num_warps < 1 or config.num_warps & (config.num_warps - 1):
        yield f"{config.num_warps} warps are not a power of two"
    if config.num_stages < 0:
        yield f"there cannot be {config.num_stages} stages"
    yield from _constants((*config.meta, *config.options))


def _constants(pairs: Iterable[tuple[str, ir.ConstantValue]]) -> Iterator[str]:
    for name, value in pairs:
        if any(item != item for item in (value if isinstance(value, tuple) else (value,))):
            yield f"{name} is not a number"


def _grid(grid: tuple[Expr, ...], known: frozenset[str]) -> Iterator[str]:
    if not 1 <= len(grid) <= ir.MAX_GRID:
        yield f"a grid has one to {ir.MAX_GRID} sizes, not {len(grid)}"
    yield from _exprs(grid, known)


def _exprs(exprs: Iterable[Expr], known: frozenset[str]) -> Iterator[str]:
    for expr in exprs:
        unknown = sorted(expr.free_symbols - known)
        if unknown or expr.free_atoms:
            yield f"{expr} needs {', '.join(unknown) or 'a tensor'}, which the kernel does not have"

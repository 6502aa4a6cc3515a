"""Checks that kernel definitions are consistent (WIR091), and variants of multi-kernels compatible
(WIR028)."""

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
    """Checks all kernels of a program."""
    for kernel in analyses.program.kernels:
        foreign = list(_foreign_constants(kernel))
        for name, kind in foreign:
            message = f"@{kernel.name}: {name} holds a {kind}, which is not a constant of kernels"
            findings.add("WIR001", message)
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
    match kernel:
        case ir.TritonKernel():
            yield from _function(kernel)
            yield from _triton(kernel)
        case ir.CppKernel():
            yield from _function(kernel)
            yield from _cpp(kernel)
        case ir.OperatorKernel():
            yield from operator_faults(kernel)
        case ir.ForeignKernel() | ir.MultiKernel():
            pass


def _function(kernel: ir.CppKernel | ir.TritonKernel) -> Iterator[str]:
    if not kernel.entry.isidentifier():
        yield f"{kernel.entry!r} is not an entry point"
    names = [requirement.name for requirement in kernel.requires]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name} is required twice"
    for requirement in kernel.requires:
        if not requirement.name:
            yield "what is required has a name"
        if requirement.sha256 and not _SHA256.fullmatch(requirement.sha256):
            yield f"{requirement.sha256!r} of {requirement.name} is not a sha256"


def _cpp(kernel: ir.CppKernel) -> Iterator[str]:
    """Checks descriptors, and that the host can select each source."""
    descriptors = [p.name for p in kernel.params if p.kind is ir.ParamKind.DESCRIPTOR]
    if descriptors:
        yield f"parameter {descriptors[0]} is a descriptor, which only GPUs have"
    earlier: set[frozenset[str]] = set()
    for source in kernel.sources:
        isa = frozenset(source.isa)
        if any(before <= isa for before in earlier):
            names = ", ".join(source.isa) or "any instruction set"
            yield f"the source for {names} is never taken: one before it runs wherever it does"
        earlier.add(isa)


def _param(param: ir.KernelParam, names: list[str]) -> Iterator[str]:
    if param.kind.takes_tensor == (param.access is ir.Access.NONE):
        yield f"parameter {param.name} is a {param.kind.value} with access {param.access.value}"
    if param.divisible < 1:
        yield f"{param.name} cannot be divisible by {param.divisible}"
    if bool(param.block) != (param.kind is ir.ParamKind.DESCRIPTOR):
        yield f"{param.name} is a {param.kind.value} with {len(param.block)} block sizes"


def _pairs(param: ir.KernelParam, params: Mapping[str, ir.KernelParam]) -> Iterator[str]:
    """Checks pairs that may share memory. In place, an element replaces another, so both have one size."""
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
    """Constants that are not a `ConstantValue`, with their classes: frontends parse constants from text."""
    pairs: list[tuple[str, object]] = []
    match kernel:
        case ir.OperatorKernel():
            pairs += kernel.constants
        case ir.TritonKernel():
            pairs += (*kernel.constants, *kernel.options)
            for config in kernel.configs:
                pairs += (*config.meta, *config.options)
        case _:
            pass
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
    symbols = ir.kernel_symbols(kernel)
    yield from _grid(kernel.grid, symbols)
    for config in kernel.configs:
        yield from _grid(config.grid, symbols) if config.grid else ()
    for param in kernel.params:
        yield from _exprs(param.block, symbols)
    tensors = {p.name for p in kernel.params if p.kind.takes_tensor}
    for word, names in (("restore", kernel.restore), ("reset", kernel.reset)):
        for name in names:
            if name not in tensors:
                yield f"{word} names {name}, which is not a tensor"
    yield from _constants((*kernel.constants, *kernel.options))


def _order(kernel: ir.TritonKernel) -> Iterator[str]:
    """Checks that every parameter of the function has one source: an argument, a constant, or all configs."""
    names = [*(p.name for p in kernel.params), *(name for name, _ in kernel.constants)]
    metas = [{name for name, _ in c.meta} for c in kernel.configs]
    for name in kernel.order:
        if name not in names and not all(name in meta for meta in metas):
            yield f"nothing gives parameter {name} of the function its value"
    for name in names:
        if name not in kernel.order:
            yield f"the function has no parameter {name}"
    every = [*names, *kernel.grid_params, *set().union(*metas)]
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


def _grid(grid: tuple[Expr, ...], symbols: frozenset[str]) -> Iterator[str]:
    if not 1 <= len(grid) <= ir.MAX_GRID:
        yield f"a grid has one to {ir.MAX_GRID} sizes, not {len(grid)}"
    yield from _exprs(grid, symbols)


def _exprs(exprs: Iterable[Expr], symbols: frozenset[str]) -> Iterator[str]:
    for expr in exprs:
        unknown = sorted(expr.free_symbols - symbols)
        if unknown or expr.free_atoms:
            yield f"{expr} needs {', '.join(unknown) or 'a tensor'}, which the kernel does not have"

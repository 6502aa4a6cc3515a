"""Kernels in a program's text: parameters, configs, grids, and sources in blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import assert_never

from wrapper_ir.expr import Expr, print_expr
from wrapper_ir.kernels import (
    Access,
    CppKernel,
    ForeignKernel,
    KernelDef,
    KernelParam,
    MultiKernel,
    OperatorConstant,
    OperatorKernel,
    ParamKind,
    Requirement,
    TritonConfig,
    TritonKernel,
    Variant,
)
from wrapper_ir.quoting import plain_name, quote, value_name
from wrapper_ir.types import DType

__all__ = ["block", "kernel_text"]

# Characters that an editor, a file in text mode or an encoding may change; a source with any is printed as a string.
_FRAGILE = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ufeff\ud800-\udfff]")
_MARKS = {ParamKind.POINTER: "*", ParamKind.SCALAR: "", ParamKind.DESCRIPTOR: "[]"}


def kernel_text(kernel: KernelDef) -> str:
    """A kernel with its parameters and its source in a block."""
    params = ", ".join(map(_param, kernel.params))
    name = value_name(kernel.name)
    match kernel:
        case CppKernel():
            head = f"kernel cpp @{name} entry {quote(kernel.entry)}{_isa(kernel.isa)} ({params})"
            if kernel.requires:
                head += f"\n  {_requires(kernel.requires)}\n "
            variants = "".join(f"\n  variant{_isa(v.isa)} {block(v.source)}" for v in kernel.variants)
            return f"{head} {block(kernel.source)}{variants}"
        case TritonKernel():
            clauses = "".join(f"\n  {clause}" for clause in _clauses(kernel))
            head = f"kernel triton @{name} entry {quote(kernel.entry)} ({params})"
            return f"{head}{clauses}\n  {block(kernel.source)}"
        case MultiKernel():
            over = f" over({_names(kernel.grid_params)})" if kernel.grid_params else ""
            variants = "".join(f"\n    {_variant(v)}," for v in kernel.variants)
            return f"kernel multi @{name} choose {kernel.choice.value} ({params}){over}\n  variants({variants}\n  )"
        case OperatorKernel():
            text = f"kernel operator @{name} {quote(kernel.schema)} ({params})"
            return f"{text} constants({_named(kernel.constants)})" if kernel.constants else text
        case ForeignKernel():
            return (
                f"kernel foreign @{name} runtime {quote(kernel.runtime)} ({params}) {block(kernel.payload)}"
            )
        case _:
            assert_never(kernel)


def _isa(isa: tuple[str, ...]) -> str:
    return f" isa({', '.join(map(quote, isa))})" if isa else ""


def _requires(requires: tuple[Requirement, ...]) -> str:
    return "requires(" + "".join(f"\n    {_requirement(r)}," for r in requires) + "\n  )"


def _requirement(requirement: Requirement) -> str:
    origin = f" of {quote(requirement.origin)}" if requirement.origin else ""
    digest = f" sha256 {quote(requirement.sha256)}" if requirement.sha256 else ""
    return f"{quote(requirement.name)}{origin}{digest}"


def _param(param: KernelParam) -> str:
    access = "" if param.access is Access.NONE else f"{param.access.value} "
    text = f"{access}{param.dtype.value}{_MARKS[param.kind]} {plain_name(param.name)}"
    if param.may_alias:
        text += f" may_alias({', '.join(map(plain_name, param.may_alias))})"
    if param.may_overlap:
        text += f" may_overlap({', '.join(map(plain_name, param.may_overlap))})"
    if param.divisible != 1:
        text += f" divisible({param.divisible})"
    return f"{text} {_exprs('block', param.block)}" if param.block else text


# --- Triton


def _clauses(kernel: TritonKernel) -> Iterator[str]:
    """What follows the parameters, in this order; what is empty is left out."""
    yield f"order({_names(kernel.order)})"
    if kernel.constants:
        yield f"constants({_named(kernel.constants)})"
    yield "configs(" + "".join(f"\n    {_config(c)}," for c in kernel.configs) + "\n  )"
    yield _exprs("grid", kernel.grid) + (f" over({_names(kernel.grid_params)})" if kernel.grid_params else "")
    if kernel.derive:
        yield f"derive({', '.join(d.value for d in kernel.derive)})"
    if kernel.options:
        yield f"options({_named(kernel.options)})"
    if kernel.restore:
        yield f"restore({_names(kernel.restore)})"
    if kernel.reset:
        yield f"reset({_names(kernel.reset)})"
    if kernel.size_hints:
        yield f"hints({_named(kernel.size_hints)})"
    if kernel.heuristic:
        yield f"heuristic {quote(kernel.heuristic)}"
    if kernel.cooperative:
        yield "cooperative"
    if kernel.multiprocessors is not None:
        yield f"multiprocessors({kernel.multiprocessors})"
    if kernel.requires:
        yield _requires(kernel.requires)


def _config(config: TritonConfig) -> str:
    text = f"{{{_named(config.meta)}}} warps({config.num_warps}) stages({config.num_stages})"
    if config.options:
        text += f" options({_named(config.options)})"
    return f"{text} {_exprs('grid', config.grid)}" if config.grid else text


def _variant(variant: Variant) -> str:
    text = f"@{value_name(variant.kernel)}({', '.join(map(str, variant.args))})"
    if variant.grid:
        text += f" grid({', '.join(map(str, variant.grid))})"
    return f"{text} hints({', '.join(map(_hint, variant.hints))})" if variant.hints else text


def _hint(sizes: tuple[int | None, ...]) -> str:
    return f"({', '.join('none' if s is None else str(s) for s in sizes)})"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(plain_name, names))


def _named(pairs: Iterable[tuple[str, OperatorConstant]]) -> str:
    return ", ".join(f"{plain_name(name)} = {_constant(value)}" for name, value in pairs)


def _constant(value: OperatorConstant) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case DType():
            return f"dtype({value.value})"
        case str():
            return quote(value)
        case tuple():
            return f"({', '.join(map(str, value))})"
        case _:
            return repr(value)


def _exprs(word: str, exprs: Iterable[Expr]) -> str:
    return f"{word}({', '.join(map(print_expr, exprs))})"


# --- sources


def block(source: str) -> str:
    """`source` verbatim between lines of braces, as many as it takes to stand out; fragile text is quoted."""
    if _FRAGILE.search(source):
        return quote(source)
    braces = 3
    lines = {line.rstrip(" \t") for line in source.split("\n") if line.startswith("}}}")}
    while "}" * braces in lines:
        braces += 1
    return f"{'{' * braces}\n{source}\n{'}' * braces}"

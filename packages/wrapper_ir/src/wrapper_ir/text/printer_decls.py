"""Everything in a program's text but functions: head, symbols, constants, operators, kernels, provenance."""

from __future__ import annotations

import re
from typing import assert_never

from wrapper_ir.kernels import Access, CppKernel, ForeignKernel, KernelDef, KernelParam, ParamKind
from wrapper_ir.ops import Provenance
from wrapper_ir.program import Constant, SymbolDef, Target
from wrapper_ir.quoting import plain_name, quote, symbol_name, value_name
from wrapper_ir.schemas import ExternDef
from wrapper_ir.text.printer_types import TypePrinter, device_text

__all__ = [
    "block",
    "constant_text",
    "extern_text",
    "kernel_text",
    "provenance_text",
    "symbol_text",
    "target_text",
]

# Characters that an editor, a file in text mode or an encoding may change; a source with any is printed as a string.
_FRAGILE = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ufeff\ud800-\udfff]")


def target_text(target: Target) -> str:
    """`target cuda:0 arch "sm_90"`."""
    return f"target {device_text(target.device)}" + (f" arch {quote(target.arch)}" if target.arch else "")


def symbol_text(symbol: SymbolDef) -> str:
    """`symbol s0 : int backed [2, 1024] hint 8`."""
    text = (
        f"symbol {symbol_name(symbol.name)} : {symbol.kind.value} {'backed' if symbol.backed else 'unbacked'}"
    )
    if symbol.lower is not None or symbol.upper is not None:
        text += f" [{_bound(symbol.lower)}, {_bound(symbol.upper)}]"
    return text if symbol.hint is None else f"{text} hint {_number(symbol.hint)}"


def _bound(bound: int | None) -> str:
    return "*" if bound is None else str(bound)


def _number(number: int | float | bool) -> str:
    return ("true" if number else "false") if isinstance(number, bool) else repr(number)


def constant_text(constant: Constant, types: TypePrinter) -> str:
    """`const %weight : f32[64, 64] sha256 "..."`."""
    word = "mutable const" if constant.mutable else "const"
    data = f" sha256 {quote(constant.data_hash)}" if constant.data_hash else ""
    return f"{word} %{value_name(constant.value.name)} : {types.type(constant.value.type)}{data}"


def extern_text(extern: ExternDef) -> str:
    """`extern "aten::relu(Tensor self) -> Tensor" tags(random)`."""
    tags = f" tags({', '.join(t.value for t in extern.tags)})" if extern.tags else ""
    return f"extern {quote(extern.schema)}{tags}"


def kernel_text(kernel: KernelDef) -> str:
    """A kernel with its parameters and its source in a block."""
    params = ", ".join(map(_param, kernel.params))
    name = value_name(kernel.name)
    match kernel:
        case CppKernel():
            isa = f" isa({', '.join(map(quote, kernel.isa))})" if kernel.isa else ""
            return f"kernel cpp @{name} entry {quote(kernel.entry)}{isa} ({params}) {block(kernel.source)}"
        case ForeignKernel():
            return (
                f"kernel foreign @{name} runtime {quote(kernel.runtime)} ({params}) {block(kernel.payload)}"
            )
        case _:
            assert_never(kernel)


def _param(param: KernelParam) -> str:
    access = "" if param.access is Access.NONE else f"{param.access.value} "
    star = "*" if param.kind is ParamKind.POINTER else ""
    alias = f" may_alias({', '.join(map(plain_name, param.may_alias))})" if param.may_alias else ""
    return f"{access}{param.dtype.value}{star} {plain_name(param.name)}{alias}"


def block(source: str) -> str:
    """`source` verbatim between lines of braces, as many as it takes to stand out; fragile text is quoted."""
    if _FRAGILE.search(source):
        return quote(source)
    braces = 3
    lines = {line.rstrip(" \t") for line in source.split("\n") if line.startswith("}}}")}
    while "}" * braces in lines:
        braces += 1
    return f"{'{' * braces}\n{source}\n{'}' * braces}"


def provenance_text(prov: Provenance, number: int) -> str:
    """`#1 nodes("relu") ops("aten.relu.default") at("model.py:12") modules("mlp.0") upstream("buf0")`."""
    parts = [f"#{number}"]
    for word, items in (
        ("nodes", prov.nodes),
        ("ops", prov.ops),
        ("at", prov.locations),
        ("modules", prov.modules),
        ("upstream", (prov.upstream,) if prov.upstream else ()),
    ):
        if items:
            parts.append(f"{word}({', '.join(map(quote, items))})")
    return " ".join(parts)

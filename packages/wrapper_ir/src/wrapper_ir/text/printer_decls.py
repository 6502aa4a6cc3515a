"""Everything in a program's text but functions and kernels: head, symbols, constants, operators, provenance."""

from __future__ import annotations

from wrapper_ir.ops import Provenance
from wrapper_ir.program import Constant, ConstantKind, SymbolDef, Target
from wrapper_ir.quoting import quote, symbol_name, value_name
from wrapper_ir.schemas import ExternDef
from wrapper_ir.text.printer_types import TypePrinter, device_text

__all__ = [
    "constant_text",
    "extern_text",
    "provenance_text",
    "symbol_text",
    "target_text",
]


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
    text = f"{word} %{value_name(constant.value.name)} : {types.type(constant.value.type)}"
    if constant.kind is not ConstantKind.OTHER:
        text += f" {constant.kind.value}"
    if constant.names:
        text += f" names({', '.join(map(quote, constant.names))})"
    if constant.storage or constant.offset:
        text += f" storage({quote(constant.storage)}, {constant.offset})"
    return f"{text} sha256 {quote(constant.data_hash)}" if constant.data_hash else text


def extern_text(extern: ExternDef) -> str:
    """`extern "aten::relu(Tensor self) -> Tensor" tags(random)`."""
    tags = f" tags({', '.join(t.value for t in extern.tags)})" if extern.tags else ""
    return f"extern {quote(extern.schema)}{tags}"


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

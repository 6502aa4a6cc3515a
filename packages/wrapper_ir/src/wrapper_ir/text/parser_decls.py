"""Reads everything in a program's text but function bodies and kernels: symbols, constants, operators, provenance."""

from __future__ import annotations

from wrapper_ir.expr import SymKind
from wrapper_ir.ops import Provenance
from wrapper_ir.program import Constant, ConstantKind, SymbolDef, Target
from wrapper_ir.schemas import ExternDef, ExternTag
from wrapper_ir.text.parser_scope import OpParser
from wrapper_ir.values import Value

__all__ = ["read_constant", "read_extern", "read_provenance", "read_symbol", "read_target"]

_KINDS = {k.value: k for k in SymKind}
_BACKED = {"backed": 1, "unbacked": 0}
_TAGS = {t.value: t for t in ExternTag}
_CONSTANT_KINDS = {k.value: k for k in ConstantKind}
_PROVENANCE_WORDS = ("nodes", "ops", "at", "modules", "upstream")


def read_target(p: OpParser) -> Target:
    """`target cuda:0 arch "sm_90"`, after its first word."""
    device = p.device_name(p.name("a device"))
    return Target(device=device, arch=p.string() if p.accept("arch") else "")


def read_symbol(p: OpParser) -> SymbolDef:
    """`symbol s0 : int backed [2, 1024] hint 8`, after its first word."""
    start = p.at
    name = p.name("a symbol")
    if name in p.symbols:
        p.fail("WIR506", f"symbol {name} is declared twice", start)
    p.expect(":")
    kind = p.choice(_KINDS, "kind of symbol")
    backed = p.choice(_BACKED, "word: `backed` or `unbacked`")
    lower = upper = None
    if p.accept("["):
        lower = _bound(p)
        p.expect(",")
        upper = _bound(p)
        p.expect("]")
    hint = p.number() if p.accept("hint") else None
    return SymbolDef(name=name, kind=kind, backed=bool(backed), lower=lower, upper=upper, hint=hint)


def _bound(p: OpParser) -> int | None:
    return None if p.accept("*") else p.integer("a bound or `*`")


def read_constant(p: OpParser, mutable: bool) -> Constant:
    """`const %weight : f32[64, 64] parameter names("w") storage("s", 0) sha256 "..."`, after its first word."""
    start = p.at
    name = p.sigil("%", "a value such as %w")
    p.expect(":")
    value: Value = p.define(name, p.type(), start)
    kind = ConstantKind.OTHER
    if p.tokens[p.at] in _CONSTANT_KINDS:
        kind = p.choice(_CONSTANT_KINDS, "kind of constant")
    names = p.group("names", p.string)
    storage, offset = "", 0
    if p.accept("storage"):
        p.expect("(")
        storage = p.string("the name of a storage in quotes")
        p.expect(",")
        offset = p.integer("an offset in bytes")
        p.expect(")")
    return Constant(
        value=value,
        data_hash=p.string() if p.accept("sha256") else "",
        mutable=mutable,
        kind=kind,
        names=names,
        storage=storage,
        offset=offset,
    )


def read_extern(p: OpParser) -> ExternDef:
    """`extern "aten::relu(Tensor self) -> Tensor" tags(random)`, after its first word."""
    start = p.at
    schema = p.string("an operator schema in quotes")
    if "(" not in schema:
        p.fail("WIR500", "this is no operator schema", start, hint='"namespace::name(...) -> ..."')
    return ExternDef(schema=schema, tags=p.group("tags", lambda: p.choice(_TAGS, "tag")))


def read_provenance(p: OpParser) -> dict[str, Provenance]:
    """The lines of the `provenance` table, by mark."""
    table: dict[str, Provenance] = {}
    p.skip_lines()
    while p.tokens[p.at][:1] == "#":
        mark = p.tokens[p.at]
        if mark in table:
            p.fail("WIR506", f"provenance {mark} is given twice")
        p.at += 1
        groups = [p.group(word, p.string) for word in _PROVENANCE_WORDS]
        nodes, ops, locations, modules, upstream = groups
        if len(upstream) > 1:
            p.fail("WIR500", "upstream(...) holds one name")
        table[mark] = Provenance(
            nodes=nodes, ops=ops, locations=locations, modules=modules, upstream="".join(upstream)
        )
        p.end_line()
        p.skip_lines()
    return table

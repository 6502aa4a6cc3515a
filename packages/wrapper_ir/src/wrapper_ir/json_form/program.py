"""Programs as JSON: `from_json(to_json(p)) == p`, and equal programs have equal text."""

from __future__ import annotations

from wrapper_ir.collection import paused_collection
from wrapper_ir.expr import Bool, Float, Int, SymKind
from wrapper_ir.json_form.devices import decode_device, decode_type, encode_device, encode_type
from wrapper_ir.json_form.exprs import ArgDecoder, encode_expr, encode_number
from wrapper_ir.json_form.kernels import decode_kernel, encode_kernel
from wrapper_ir.json_form.ops import OpDecoder, OpEncoder
from wrapper_ir.json_form.reading import (
    Json,
    dump,
    each,
    fault,
    field,
    integer,
    load,
    member,
    members_of,
    obj,
    only,
    string,
    strings,
    truth,
)
from wrapper_ir.ops import Provenance
from wrapper_ir.program import (
    SCHEMA_VERSION,
    Constant,
    Function,
    Ownership,
    Param,
    Program,
    SymbolDef,
    Target,
)
from wrapper_ir.schemas import ExternDef, ExternTag

__all__ = ["FORMAT", "from_json", "to_json"]

FORMAT = "wrapper-ir-program"

_kind = member(members_of(SymKind), "kind of symbol")
_tag = member(members_of(ExternTag), "tag")
_ownership = member(members_of(Ownership), "ownership")


@paused_collection()
def to_json(program: Program) -> str:
    """The canonical JSON of a program; its schema is `schema/program.schema.json`."""
    e = OpEncoder()
    constants = [_encode_constant(c, e) for c in program.constants]
    functions = [_encode_function(f, e) for f in program.functions]
    return dump(
        {
            "format": FORMAT,
            "version": program.schema_version,
            "target": {"device": encode_device(program.target.device), "arch": program.target.arch},
            "symbols": [_encode_symbol(s) for s in program.symbols],
            "constants": constants,
            "externs": [{"schema": x.schema, "tags": [t.value for t in x.tags]} for x in program.externs],
            "kernels": [encode_kernel(k) for k in program.kernels],
            "functions": functions,
            "types": [encode_type(t, encode_expr) for t in e.types],
            "provenance": [_encode_provenance(p) for p in e.provenances],
        }
    )


def _encode_symbol(symbol: SymbolDef) -> Json:
    return {
        "name": symbol.name,
        "kind": symbol.kind.value,
        "backed": symbol.backed,
        "lower": symbol.lower,
        "upper": symbol.upper,
        "hint": encode_number(symbol.hint),
    }


def _encode_constant(constant: Constant, e: OpEncoder) -> Json:
    return {"value": e.define(constant.value), "sha256": constant.data_hash, "mutable": constant.mutable}


def _encode_function(function: Function, e: OpEncoder) -> Json:
    return {
        "name": function.name,
        "params": [{"value": e.define(p.value), "ownership": p.ownership.value} for p in function.params],
        "captures": list(function.captures),
        "body": [e.op(op) for op in function.body],
    }


def _encode_provenance(prov: Provenance) -> Json:
    return {
        "nodes": list(prov.nodes),
        "ops": list(prov.ops),
        "locations": list(prov.locations),
        "modules": list(prov.modules),
        "upstream": prov.upstream,
    }


_TOP = (
    "format",
    "version",
    "target",
    "symbols",
    "constants",
    "externs",
    "kernels",
    "functions",
    "types",
    "provenance",
)


@paused_collection()
def from_json(text: str) -> Program:
    """The program in `text`; nothing is verified beyond what reading needs.

    Raises ParseError, with the place as a JSON path: WIR501 another version, WIR506 defined twice, WIR507 unknown
    provenance, WIR520 no JSON, WIR521 wrong structure, WIR522 unknown word, WIR551 undeclared symbol, WIR552 undefined
    value, WIR553 nested too deeply.
    """
    return load(text, _decode_program)


def _decode_program(o: dict[str, Json]) -> Program:
    if o.get("format") != FORMAT:
        fault(f'this is no program: "format" is not "{FORMAT}"')
    version = field(o, "version", string)
    if version != SCHEMA_VERSION:
        fault(f"this is JSON of version {version[:40]!r}, not {SCHEMA_VERSION}", "WIR501")
    only(o, _TOP)
    d = OpDecoder()
    symbols = field(o, "symbols", lambda x: each(x, lambda s: _decode_symbol(s, d)))
    d.types = field(o, "types", lambda x: each(x, lambda t: decode_type(t, d.expr)))
    d.provenances = field(o, "provenance", lambda x: each(x, _decode_provenance))
    constants = field(o, "constants", lambda x: each(x, lambda c: _decode_constant(c, d)))
    return Program(
        target=field(o, "target", _decode_target),
        symbols=symbols,
        constants=constants,
        externs=field(o, "externs", lambda x: each(x, _decode_extern)),
        kernels=field(o, "kernels", lambda x: each(x, decode_kernel)),
        functions=field(o, "functions", lambda x: each(x, lambda f: _decode_function(f, d))),
    )


def _decode_target(x: Json) -> Target:
    o = obj(x)
    only(o, ("device", "arch"))
    return Target(device=field(o, "device", decode_device), arch=field(o, "arch", string))


def _decode_symbol(x: Json, d: ArgDecoder) -> SymbolDef:
    o = obj(x)
    only(o, ("name", "kind", "backed", "lower", "upper", "hint"))
    name, kind = field(o, "name", string), field(o, "kind", _kind)
    if name in d.kinds:
        fault(f"symbol {name!r} is declared twice", "WIR506")
    d.kinds[name] = kind
    return SymbolDef(
        name=name,
        kind=kind,
        backed=field(o, "backed", truth),
        lower=field(o, "lower", _bound),
        upper=field(o, "upper", _bound),
        hint=field(o, "hint", _number),
    )


def _bound(x: Json) -> int | None:
    return None if x is None else integer(x)


def _number(x: Json) -> int | float | bool | None:
    if x is None:
        return None
    e = ArgDecoder().expr(x)
    if not isinstance(e, Int | Float | Bool) or e.value != e.value:
        fault("expected a number")
    return e.value


def _decode_constant(x: Json, d: OpDecoder) -> Constant:
    o = obj(x)
    only(o, ("value", "sha256", "mutable"))
    return Constant(
        value=field(o, "value", d.define),
        data_hash=field(o, "sha256", string),
        mutable=field(o, "mutable", truth),
    )


def _decode_extern(x: Json) -> ExternDef:
    o = obj(x)
    only(o, ("schema", "tags"))
    schema = field(o, "schema", string)
    if "(" not in schema:
        fault("this is no operator schema")
    return ExternDef(schema=schema, tags=field(o, "tags", lambda t: each(t, _tag)))


def _decode_function(x: Json, d: OpDecoder) -> Function:
    o = obj(x)
    only(o, ("name", "params", "captures", "body"))
    outer = d.values
    d.values = dict(outer)
    function = Function(
        name=field(o, "name", string),
        params=field(o, "params", lambda p: each(p, lambda i: _decode_function_param(i, d))),
        captures=field(o, "captures", lambda c: each(c, lambda s: _capture(s, d))),
        body=field(o, "body", lambda b: each(b, d.op)),
    )
    d.values = outer
    return function


def _decode_function_param(x: Json, d: OpDecoder) -> Param:
    o = obj(x)
    only(o, ("value", "ownership"))
    return Param(value=field(o, "value", d.define), ownership=field(o, "ownership", _ownership))


def _capture(x: Json, d: OpDecoder) -> str:
    name = string(x)
    return name if name in d.kinds else fault(f"symbol {name!r} is not declared", "WIR551")


def _decode_provenance(x: Json) -> Provenance:
    o = obj(x)
    only(o, ("nodes", "ops", "locations", "modules", "upstream"))
    return Provenance(
        nodes=field(o, "nodes", strings),
        ops=field(o, "ops", strings),
        locations=field(o, "locations", strings),
        modules=field(o, "modules", strings),
        upstream=field(o, "upstream", string),
    )

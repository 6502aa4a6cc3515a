"""Signatures as JSON."""

from __future__ import annotations

from typing import assert_never

from wrapper_ir.json_form.exprs import ArgDecoder, encode_arg
from wrapper_ir.json_form.reading import (
    MAX_DEPTH,
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
)
from wrapper_ir.ops import Arg
from wrapper_ir.program import SCHEMA_VERSION
from wrapper_ir.signature import (
    ConstantOutput,
    InputAlias,
    InputOutput,
    OutputBinding,
    ResultOutput,
    Signature,
    StaticInput,
    TreeKind,
    TreeSpec,
    WriteBack,
)

__all__ = ["SIGNATURE_FORMAT", "signature_from_json", "signature_to_json"]

SIGNATURE_FORMAT = "wrapper-ir-signature"

_tree_kind = member(members_of(TreeKind), "container")


def signature_to_json(signature: Signature) -> str:
    """The canonical JSON of a signature; its schema is `schema/signature.schema.json`."""
    return dump(
        {
            "format": SIGNATURE_FORMAT,
            "version": SCHEMA_VERSION,
            "inputs": _encode_tree(signature.inputs),
            "params": list(signature.params),
            "outputs": _encode_tree(signature.outputs),
            "bindings": [_encode_binding(b) for b in signature.bindings],
            "names": list(signature.names),
            "statics": [{"leaf": s.leaf, "value": encode_arg(s.value)} for s in signature.statics],
            "write_backs": [{"result": w.result, "leaf": w.leaf} for w in signature.write_backs],
            "aliases": [{"result": a.result, "leaf": a.leaf} for a in signature.aliases],
        }
    )


def _encode_tree(tree: TreeSpec) -> Json:
    return {
        "kind": tree.kind.value,
        "children": [_encode_tree(c) for c in tree.children],
        "keys": list(tree.keys),
        "type_name": tree.type_name,
        "context": tree.context,
    }


def _encode_binding(binding: OutputBinding) -> Json:
    match binding:
        case ResultOutput(index=index):
            return {"result": index}
        case InputOutput(leaf=leaf):
            return {"input": leaf}
        case ConstantOutput(value=value):
            return {"constant": encode_arg(value)}
        case _:
            assert_never(binding)


_TOP = (
    "format",
    "version",
    "inputs",
    "params",
    "outputs",
    "bindings",
    "names",
    "statics",
    "write_backs",
    "aliases",
)


def signature_from_json(text: str) -> Signature:
    """The signature in `text`. Raises ParseError as `from_json` does."""
    return load(text, _decode)


def _decode(o: dict[str, Json]) -> Signature:
    if o.get("format") != SIGNATURE_FORMAT:
        fault(f'this is no signature: "format" is not "{SIGNATURE_FORMAT}"')
    version = field(o, "version", string)
    if version != SCHEMA_VERSION:
        fault(f"this is JSON of version {version[:40]!r}, not {SCHEMA_VERSION}", "WIR501")
    only(o, _TOP)
    return Signature(
        inputs=field(o, "inputs", _decode_tree),
        params=field(o, "params", lambda p: each(p, integer)),
        outputs=field(o, "outputs", _decode_tree),
        bindings=field(o, "bindings", lambda b: each(b, _decode_binding)),
        names=field(o, "names", strings),
        statics=field(o, "statics", lambda s: each(s, _decode_static)),
        write_backs=field(o, "write_backs", lambda w: each(w, _decode_write_back)),
        aliases=field(o, "aliases", lambda a: each(a, _decode_alias)),
    )


def _decode_tree(x: Json, depth: int = 0) -> TreeSpec:
    if depth > MAX_DEPTH:
        fault(f"nests deeper than {MAX_DEPTH}", "WIR553")
    o = obj(x)
    only(o, ("kind", "children", "keys", "type_name", "context"))
    return TreeSpec(
        kind=field(o, "kind", _tree_kind),
        children=field(o, "children", lambda c: each(c, lambda t: _decode_tree(t, depth + 1))),
        keys=field(o, "keys", strings),
        type_name=field(o, "type_name", string),
        context=field(o, "context", string),
    )


def _literal(x: Json) -> Arg:
    """An argument in which no value and no symbol can occur."""
    return ArgDecoder().arg(x)


def _decode_binding(x: Json) -> OutputBinding:
    o = obj(x)
    match list(o):
        case ["result"]:
            return ResultOutput(index=field(o, "result", integer))
        case ["input"]:
            return InputOutput(leaf=field(o, "input", integer))
        case ["constant"]:
            return ConstantOutput(value=field(o, "constant", _literal))
        case _:
            return fault("an output is an object of one key: result, input or constant")


def _decode_static(x: Json) -> StaticInput:
    o = obj(x)
    only(o, ("leaf", "value"))
    return StaticInput(leaf=field(o, "leaf", integer), value=field(o, "value", _literal))


def _decode_write_back(x: Json) -> WriteBack:
    result, leaf = _pair(x)
    return WriteBack(result=result, leaf=leaf)


def _decode_alias(x: Json) -> InputAlias:
    result, leaf = _pair(x)
    return InputAlias(result=result, leaf=leaf)


def _pair(x: Json) -> tuple[int, int]:
    o = obj(x)
    only(o, ("result", "leaf"))
    return field(o, "result", integer), field(o, "leaf", integer)

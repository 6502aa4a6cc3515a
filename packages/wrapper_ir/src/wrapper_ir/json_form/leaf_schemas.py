"""JSON Schemas of what is not a record: expressions, arguments, floats and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wrapper_ir.expr import OPERATORS
from wrapper_ir.json_form.codec import Schema, ref
from wrapper_ir.json_form.reading import Json

__all__ = ["leaf_schemas"]

_STRING: Schema = {"type": "string"}
_INDEX: Schema = {"type": "integer", "minimum": 0}


def _any(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def _record(**fields: Schema) -> Schema:
    required: list[Json] = [*sorted(fields)]
    return {
        "type": "object",
        "properties": dict(fields),
        "required": required,
        "additionalProperties": False,
    }


def _exactly(*fields: Schema) -> Schema:
    return {"type": "array", "prefixItems": [*fields], "items": False, "minItems": len(fields)}


def _words(words: Iterable[str]) -> Schema:
    listed: list[Json] = [*sorted(words)]
    return {"enum": listed}


def _expr() -> Schema:
    by_count: dict[int, list[str]] = {}
    for op in OPERATORS.rows:
        by_count.setdefault(op.arity, []).append(op.name)
    nodes: list[Schema] = []
    for count, tags in sorted(by_count.items()):
        if count:
            nodes.append(_exactly(_words(tags), *[ref("expr")] * count))
        else:
            first: list[Json] = [_words(tags)]
            nodes.append({"type": "array", "prefixItems": first, "items": ref("expr"), "minItems": 3})
    atoms = [
        _exactly(_words(("size", "stride")), _STRING, _INDEX),
        _exactly(_words(("offset", "item")), _STRING),
    ]
    return _any({"type": "integer"}, {"type": "boolean"}, _STRING, ref("float"), *nodes, *atoms)


def _arg() -> Schema:
    return _any(
        {"type": "null"},
        ref("expr"),
        _record(value=_STRING),
        _record(list={"type": "array", "items": ref("arg")}),
        _record(str=_STRING),
        *(_record(**{name: ref(name)}) for name in ("dtype", "device", "memory_format", "layout")),
        _record(complex=_exactly(ref("float"), ref("float"))),
    )


def leaf_schemas() -> Mapping[str, Schema]:
    """The definitions by name."""
    return {
        "expr": _expr(),
        "arg": _arg(),
        "float": _record(float=_any({"type": "number"}, {"enum": ["-inf", "inf", "nan"]})),
        "result": _record(name=_STRING, type=_INDEX),
    }

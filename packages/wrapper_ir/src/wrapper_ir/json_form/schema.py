"""The JSON Schemas (draft 2020-12) of programs and signatures, made from the tables that encode and decode.

The files in `wrapper_ir/schema` are written from here; a test compares them.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from wrapper_ir.expr import SymKind
from wrapper_ir.json_form.exprs import EXPR_TAGS
from wrapper_ir.json_form.kernels import CONFIG_FIELDS, KERNEL_FIELDS, VARIANT_FIELDS
from wrapper_ir.json_form.ops import OP_TAGS, op_fields
from wrapper_ir.json_form.program import FORMAT
from wrapper_ir.json_form.reading import Json
from wrapper_ir.json_form.signature import SIGNATURE_FORMAT
from wrapper_ir.kernels import Access, Choice, Derivation, OperatorKernel, ParamKind
from wrapper_ir.program import SCHEMA_VERSION, Ownership
from wrapper_ir.schemas import ExternTag
from wrapper_ir.signature import ParameterKind, RandomSource, TreeKind, WriteBackKind
from wrapper_ir.types import DType, Layout, MemoryFormat, MemoryKind, OpaqueKind

__all__ = ["SCHEMAS", "program_schema", "signature_schema"]

Schema = dict[str, Json]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_STRING: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_INDEX: Schema = {"type": "integer", "minimum": 0}
_TRUTH: Schema = {"type": "boolean"}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _words(words: Iterable[str]) -> Schema:
    listed: list[Json] = [*sorted(words)]
    return {"enum": listed}


def _enum(cls: type[enum.Enum]) -> Schema:
    return _words(str(m.value) for m in cls)


def _record(fields: Mapping[str, Schema], optional: Iterable[str] = ()) -> Schema:
    """An object of these fields and no others."""
    required: list[Json] = [*sorted(set(fields) - set(optional))]
    return {
        "type": "object",
        "properties": dict(fields),
        "required": required,
        "additionalProperties": False,
    }


def _one(name: str, schema: Schema) -> Schema:
    return _record({name: schema})


def _any(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def _tagged(tags: Iterable[str], *fields: Schema) -> Schema:
    """A list of a tag and exactly these fields."""
    return _exactly(_words(tags), *fields)


def _exactly(*fields: Schema) -> Schema:
    """A list of exactly these fields."""
    return {"type": "array", "prefixItems": [*fields], "items": False, "minItems": len(fields)}


def _expr() -> Schema:
    by_count: dict[int, list[str]] = {}
    for tag, count in EXPR_TAGS.items():
        by_count.setdefault(count, []).append(tag)
    nodes: list[Schema] = []
    for count, tags in sorted(by_count.items()):
        if count:
            nodes.append(_tagged(tags, *[_ref("expr")] * count))
        else:
            first: list[Json] = [_words(tags)]
            nodes.append({"type": "array", "prefixItems": first, "items": _ref("expr"), "minItems": 3})
    atoms = [_tagged(("size", "stride"), _STRING, _INDEX), _tagged(("offset", "item"), _STRING)]
    return _any(_INTEGER, _TRUTH, _STRING, _ref("float"), *nodes, *atoms)


def _arg() -> Schema:
    return _any(
        {"type": "null"},
        _ref("expr"),
        _one("value", _STRING),
        _one("list", _array(_ref("arg"))),
        _one("str", _STRING),
        _one("dtype", _ref("dtype")),
        _one("device", _ref("device")),
        _one("memory_format", _enum(MemoryFormat)),
        _one("layout", _enum(Layout)),
        _one("complex", _exactly(_ref("float"), _ref("float"))),
    )


def _type() -> Schema:
    space = _record({"kind": _enum(MemoryKind), "group": _STRING, "alloc_id": _INTEGER})
    exprs = _array(_ref("expr"))
    return _any(
        _record(
            {
                "kind": {"const": "tensor"},
                "dtype": _ref("dtype"),
                "sizes": exprs,
                "strides": exprs,
                "device": _ref("device"),
            }
        ),
        _record(
            {"kind": {"const": "storage"}, "nbytes": _ref("expr"), "device": _ref("device"), "space": space}
        ),
        _record({"kind": {"const": "scalar"}, "scalar": _enum(SymKind)}),
        _record({"kind": {"const": "results"}}),
        _record({"kind": {"const": "opaque"}, "opaque": _enum(OpaqueKind), "detail": _STRING}),
    )


def _ops() -> dict[str, Schema]:
    """A definition for each op, and `op`, which chooses among them by the tag."""
    found: dict[str, Schema] = {}
    choices: list[Json] = []
    for cls, tag in OP_TAGS.items():
        fields: dict[str, Schema] = {"op": {"const": tag}, "prov": _INDEX}
        optional = ["prov"]
        for name, default, codec in op_fields(cls):
            fields[name] = codec.schema
            if default is not dataclasses.MISSING:
                optional.append(name)
        found[f"op_{tag}"] = _record(fields, optional)
        is_tag: Schema = {"properties": {"op": {"const": tag}}, "required": ["op"]}
        choices.append({"if": is_tag, "then": _ref(f"op_{tag}")})
    found["op"] = {
        "type": "object",
        "properties": {"op": _words(OP_TAGS.values())},
        "required": ["op"],
        "allOf": choices,
    }
    return found


_OPTIONAL = _any({"type": "null"}, _INTEGER)


def _kernel() -> Schema:
    types: dict[str, Schema] = {
        "name": _STRING,
        "params": _array(_ref("kernel_param")),
        "source": _STRING,
        "entry": _STRING,
        "isa": _array(_STRING),
        "runtime": _STRING,
        "payload": _STRING,
        "order": _array(_STRING),
        "configs": _array(_ref("triton_config")),
        "grid": _array(_ref("expr")),
        "grid_params": _array(_STRING),
        "constants": _array(_ref("named_constant")),
        "derive": _array(_enum(Derivation)),
        "options": _array(_ref("named_constant")),
        "restore": _array(_STRING),
        "reset": _array(_STRING),
        "size_hints": _array(_exactly(_STRING, _INTEGER)),
        "heuristic": _STRING,
        "cooperative": _TRUTH,
        "multiprocessors": _OPTIONAL,
        "variants": _array(_ref("variant")),
        "choice": _enum(Choice),
        "schema": _STRING,
    }
    listed = _any(*_constants(), _one("ints", _array(_INTEGER)))
    own = {(OperatorKernel.kind, "constants"): _array(_exactly(_STRING, listed))}
    return _any(
        *(
            _record({f: {"const": kind} if f == "kind" else own.get((kind, f), types[f]) for f in fields})
            for kind, fields in KERNEL_FIELDS.items()
        )
    )


def _constants() -> tuple[Schema, ...]:
    words = _one("str", _STRING), _one("dtype", _ref("dtype"))
    return ({"type": "null"}, _INTEGER, _TRUTH, _ref("float"), *words)


def _named_constant() -> Schema:
    return _exactly(_STRING, _any(*_constants()))


def _variant() -> Schema:
    types = {"kernel": _STRING, "hints": _array(_array(_OPTIONAL))}
    return _record({f: types.get(f, _array(_INTEGER)) for f in VARIANT_FIELDS})


def _triton_config() -> Schema:
    options = _array(_ref("named_constant"))
    types = {"meta": options, "options": options, "grid": _array(_ref("expr"))}
    return _record({f: types.get(f, _INTEGER) for f in CONFIG_FIELDS})


def _kernel_param() -> Schema:
    return _record(
        {
            "name": _STRING,
            "kind": _enum(ParamKind),
            "dtype": _ref("dtype"),
            "access": _enum(Access),
            "may_alias": _array(_STRING),
            "divisible": _INTEGER,
            "block": _array(_ref("expr")),
        }
    )


def _symbol() -> Schema:
    bound = _any({"type": "null"}, _INTEGER)
    return _record(
        {
            "name": _STRING,
            "kind": _enum(SymKind),
            "backed": _TRUTH,
            "lower": bound,
            "upper": bound,
            "hint": _any({"type": "null"}, _INTEGER, _TRUTH, _ref("float")),
        }
    )


def _function() -> Schema:
    param = _record({"value": _ref("result"), "ownership": _enum(Ownership)})
    return _record(
        {
            "name": _STRING,
            "params": _array(param),
            "captures": _array(_STRING),
            "body": _array(_ref("op")),
        }
    )


def _provenance() -> Schema:
    lists = ("nodes", "ops", "locations", "modules")
    return _record({**{name: _array(_STRING) for name in lists}, "upstream": _STRING})


def _common() -> dict[str, Schema]:
    return {
        "expr": _expr(),
        "arg": _arg(),
        "float": _one("float", _any({"type": "number"}, {"enum": ["-inf", "inf", "nan"]})),
        "dtype": _enum(DType),
        "device": _record({"type": _STRING, "index": _any({"type": "null"}, _INTEGER)}),
    }


def program_schema() -> Schema:
    """The schema of `to_json`."""
    definitions: dict[str, Schema] = {
        **_common(),
        **_ops(),
        "type": _type(),
        "result": _record({"name": _STRING, "type": _INDEX}),
        "symbol": _symbol(),
        "kernel": _kernel(),
        "kernel_param": _kernel_param(),
        "named_constant": _named_constant(),
        "triton_config": _triton_config(),
        "variant": _variant(),
        "function": _function(),
        "provenance": _provenance(),
    }
    extern = _record({"schema": _STRING, "tags": _array(_enum(ExternTag))})
    constant = _record({"value": _ref("result"), "sha256": _STRING, "mutable": _TRUTH})
    top = _record(
        {
            "format": {"const": FORMAT},
            "version": {"const": SCHEMA_VERSION},
            "target": _record({"device": _ref("device"), "arch": _STRING}),
            "symbols": _array(_ref("symbol")),
            "constants": _array(constant),
            "externs": _array(extern),
            "kernels": _array(_ref("kernel")),
            "functions": _array(_ref("function")),
            "types": _array(_ref("type")),
            "provenance": _array(_ref("provenance")),
        }
    )
    return {"$schema": _DRAFT, "title": "Wrapper IR program", **top, "$defs": dict(definitions)}


def _signature_definitions() -> dict[str, Schema]:
    tree = _record(
        {
            "kind": _enum(TreeKind),
            "children": _array(_ref("tree")),
            "keys": _array(_STRING),
            "type_name": _STRING,
            "context": _STRING,
        }
    )
    known = _array(_any({"type": "null"}, _INDEX))
    subclass = _record(
        {
            "type_name": _STRING,
            "attributes": _array(_STRING),
            "context": _STRING,
            "sizes": known,
            "strides": known,
        }
    )
    binding = _any(
        _one("result", _INDEX),
        _one("input", _INDEX),
        _one("constant", _ref("arg")),
        _one("input_view", _record({"result": _INDEX, "leaf": _INDEX})),
        _one("result_view", _record({"result": _INDEX, "base": _INDEX})),
        _one("wrapped", _record({"subclass": _ref("subclass"), "parts": _array(_ref("binding"))})),
    )
    place = _record(
        {"leaf": _INDEX, "sizes": _array(_INDEX), "strides": _array(_INDEX), "offset": _INDEX},
    )
    return {**_common(), "tree": tree, "subclass": subclass, "binding": binding, "place": place}


def signature_schema() -> Schema:
    """The schema of `signature_to_json`."""
    parameter = _record(
        {"name": _STRING, "kind": _enum(ParameterKind), "required": _TRUTH, "default": _ref("arg")}
    )
    indices = _array(_INDEX)
    top = _record(
        {
            "format": {"const": SIGNATURE_FORMAT},
            "version": {"const": SCHEMA_VERSION},
            "inputs": _ref("tree"),
            "params": indices,
            "outputs": _ref("tree"),
            "bindings": _array(_ref("binding")),
            "names": _array(_STRING),
            "parameters": _array(parameter),
            "statics": _array(_record({"leaf": _INDEX, "value": _ref("arg")})),
            "unwraps": _array(_record({"leaf": _INDEX, "subclass": _ref("subclass")})),
            "same": _array(indices),
            "shared": _array(_record({"param": _INDEX, "places": _array(_ref("place"))})),
            "written": indices,
            "write_backs": _array(_record({"result": _INDEX, "leaf": _INDEX, "kind": _enum(WriteBackKind)})),
            "random": _array(_record({"device": _ref("device"), "source": _enum(RandomSource)})),
        }
    )
    definitions: dict[str, Json] = {**_signature_definitions()}
    return {"$schema": _DRAFT, "title": "Wrapper IR signature", **top, "$defs": definitions}


SCHEMAS = {"program.schema.json": program_schema, "signature.schema.json": signature_schema}
"""The shipped files and what makes them."""

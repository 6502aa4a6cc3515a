"""Ops as JSON objects, field by field, from what their classes say (`wrapper_ir.ops.spec`): a new op needs no code here.

A field that has its default value is left out. Results are `{"name": ..., "type": index}`, operands names; types and
provenances stand in tables of the program.
"""

from __future__ import annotations

import dataclasses
from typing import get_args

from wrapper_ir.json_form.codec import Codec, Codecs, FieldCodec, Schema, array_of, record_of, ref, union_of
from wrapper_ir.json_form.context import Decoder, Encoder
from wrapper_ir.json_form.reading import Json, fault, string
from wrapper_ir.ops import UNKNOWN, FieldSpec, OpBase, OpSet, Role, Shape
from wrapper_ir.ops.spec import describe
from wrapper_ir.types import Type
from wrapper_ir.values import Value

__all__ = ["op_codec"]

_STRING: Schema = {"type": "string"}
_RESULT = Codec(Encoder.define, Decoder.define, ref("result"), defines=True)
_OPERAND = Codec(lambda _, x: x.name, Decoder.use, _STRING)
_SYMBOL = Codec(lambda _, x: x, lambda d, x: _declared(d, string(x)), _STRING)
_PROVENANCE = Codec(Encoder.provenance, Decoder.provenance, {"type": "integer", "minimum": 0})


def _declared(d: Decoder, symbol: str) -> str:
    return symbol if symbol in d.kinds else fault(f"symbol {symbol!r} is not declared", "WIR551")


def op_codec(codecs: Codecs, ops: OpSet) -> Codec:
    """The codec of ops; it adds their schemas to the definitions of `codecs`."""
    members: dict[type[OpBase], Codec] = {}
    choices: list[Json] = []
    for cls, spec in ops.specs.items():
        fields = [FieldCodec(f.name, f.default, _field_codec(codecs, f)) for f in spec.fields]
        members[cls] = record_of(cls, [*fields, FieldCodec("prov", UNKNOWN, _PROVENANCE)], ("op", spec.tag))
        codecs.definitions[f"op_{spec.tag}"] = members[cls].schema
        is_tag: Json = {"properties": {"op": {"const": spec.tag}}, "required": ["op"]}
        choices.append({"if": is_tag, "then": ref(f"op_{spec.tag}")})
    tags: list[Json] = [*sorted(ops.by_tag)]
    codecs.definitions["op"] = {
        "type": "object",
        "properties": {"op": {"enum": tags}},
        "required": ["op"],
        "allOf": choices,
    }
    return dataclasses.replace(union_of("op", members), schema=ref("op"))


def _field_codec(codecs: Codecs, field: FieldSpec) -> Codec:
    match field.role:
        case Role.DEF:
            codec = _judged(_RESULT, field, "WIR014")
        case Role.USE:
            codec = _judged(_OPERAND, field, "WIR013")
        case Role.SYMBOL:
            codec = _SYMBOL
        case _:
            return codecs.of(field.hint)
    return array_of(codec) if field.shape is Shape.MANY else codec


def _judged(codec: Codec, field: FieldSpec, code: str) -> Codec:
    """The same values, of the types that the field takes."""
    if field.accepts == get_args(Type):
        return codec
    read, accepts = codec.decode, field.accepts

    def decode(d: Decoder, x: Json) -> Value:
        value: Value = read(d, x)
        if not isinstance(value.type, accepts):
            fault(f"%{value.name} is {describe(value)}, which cannot stand here", code)
        return value

    return dataclasses.replace(codec, decode=decode)

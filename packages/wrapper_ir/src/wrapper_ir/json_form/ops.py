"""Ops as JSON objects, field by field, from the ops' own annotations: a new op needs no code here.

A field that has its default value is left out. Results are `{"name": ..., "type": index}`, operands names; types and
provenances stand in tables of the program.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from wrapper_ir.json_form.devices import decode_device, encode_device
from wrapper_ir.json_form.exprs import ArgDecoder, encode_arg, encode_expr
from wrapper_ir.json_form.reading import (
    Json,
    each,
    fault,
    field,
    integer,
    member,
    obj,
    string,
    truth,
)
from wrapper_ir.ops import (
    OP_CLASSES,
    AllocPurpose,
    Arg,
    DebugMode,
    Define,
    Op,
    OpBase,
    Provenance,
    ViewMode,
    ZeroMode,
)
from wrapper_ir.types import Type
from wrapper_ir.values import Value

__all__ = ["FIELD_CODECS", "OP_TAGS", "Codec", "OpDecoder", "OpEncoder", "op_fields", "op_tag"]


class OpEncoder:
    """Encodes ops; collects the types and provenances they mention."""

    def __init__(self) -> None:
        self.types: dict[Type, int] = {}
        self.provenances: dict[Provenance, int] = {}

    def define(self, value: Value) -> Json:
        """A result with its type's index."""
        return {"name": value.name, "type": self.types.setdefault(value.type, len(self.types))}

    def op(self, op: Op) -> Json:
        """One op."""
        cls = type(op)
        out: dict[str, Json] = {"op": OP_TAGS[cls]}
        for name, default, codec in _FIELDS[cls]:
            x = getattr(op, name)  # the op's own field
            if x is not default and x != default:
                out[name] = codec.encode(self, x)
        if op.prov != _NO_PROVENANCE:
            out["prov"] = self.provenances.setdefault(op.prov, len(self.provenances))
        return out


class OpDecoder(ArgDecoder):
    """Decodes ops of one function at a time over the program's tables."""

    def __init__(self) -> None:
        super().__init__()
        self.types: tuple[Type, ...] = ()
        self.provenances: tuple[Provenance, ...] = ()

    def define(self, x: Json) -> Value:
        """A new value in scope; a second one of the same name is WIR506."""
        o = obj(x)
        name = field(o, "name", string)
        value = Value(name, field(o, "type", self._type))
        if len(o) != 2:
            fault("a result has a name and a type, nothing else")
        if name in self.values:
            fault(f"value {name!r} is defined twice", "WIR506")
        self.values[name] = value
        return value

    def _type(self, x: Json) -> Type:
        index = integer(x)
        return self.types[index] if 0 <= index < len(self.types) else fault(f"there is no type {index}")

    def _prov(self, x: Json) -> Provenance:
        index = integer(x)
        known = self.provenances
        return known[index] if 0 <= index < len(known) else fault(f"there is no provenance {index}", "WIR507")

    def op(self, x: Json) -> Op:
        """One op; operands are read before results are defined."""
        o = obj(x)
        cls = field(o, "op", _op_class)
        # Any: the fields' types are checked by their codecs
        found: dict[str, Any] = {"prov": field(o, "prov", self._prov)} if "prov" in o else {}
        for name, default, codec in _DECODE_ORDER[cls]:
            if name in o:
                found[name] = field(o, name, partial(codec.decode, self))
            elif default is dataclasses.MISSING:
                fault(f"field {name!r} is missing")
        if len(found) != len(o) - 1:
            fault(f"unknown field {next(k for k in o if k not in found and k != 'op')!r}")
        made: Op = cls(**found)
        if isinstance(made, Define) and made.symbol not in self.kinds:
            fault(f"symbol {made.symbol!r} is not declared", "WIR551")
        return made


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """How a field is written and read, and its JSON Schema. Any: each codec has the field's own type."""

    encode: Callable[[OpEncoder, Any], Json]
    decode: Callable[[OpDecoder, Json], Any]
    schema: dict[str, Json]


def _ref(name: str) -> dict[str, Json]:
    return {"$ref": f"#/$defs/{name}"}


def _array(items: dict[str, Json]) -> dict[str, Json]:
    return {"type": "array", "items": items}


def _enum(cls: type[AllocPurpose] | type[ZeroMode] | type[ViewMode] | type[DebugMode]) -> Codec:
    table = {m.value: m for m in cls}
    read = member(table, "word")
    return Codec(lambda _, x: x.value, lambda _, x: read(x), {"enum": sorted(table)})


def _key(x: Json) -> int | str:
    return x if isinstance(x, str) else integer(x)


def _kwarg(d: OpDecoder, x: Json) -> tuple[str, Arg]:
    if not isinstance(x, list) or len(x) != 2:
        fault("a named argument is a list of its name and its value")
    return string(x[0]), d.arg(x[1])


FIELD_CODECS: dict[str, Codec] = {
    "Def": Codec(OpEncoder.define, OpDecoder.define, _ref("result")),
    "OptionalDef": Codec(OpEncoder.define, OpDecoder.define, _ref("result")),
    "Defs": Codec(
        lambda e, x: [e.define(v) for v in x], lambda d, x: each(x, d.define), _array(_ref("result"))
    ),
    "Use": Codec(lambda _, x: x.name, OpDecoder.use, {"type": "string"}),
    "Uses": Codec(lambda _, x: [v.name for v in x], lambda d, x: each(x, d.use), _array({"type": "string"})),
    "SingleArg": Codec(lambda _, x: encode_arg(x), OpDecoder.arg, _ref("arg")),
    "Args": Codec(lambda _, x: [encode_arg(a) for a in x], lambda d, x: each(x, d.arg), _array(_ref("arg"))),
    "Kwargs": Codec(
        lambda _, x: [[name, encode_arg(a)] for name, a in x],
        lambda d, x: each(x, lambda pair: _kwarg(d, pair)),
        _array(
            {"type": "array", "prefixItems": [{"type": "string"}, _ref("arg")], "items": False, "minItems": 2}
        ),
    ),
    "Expr": Codec(lambda _, x: encode_expr(x), OpDecoder.expr, _ref("expr")),
    "tuple[Expr, ...]": Codec(
        lambda _, x: [encode_expr(e) for e in x], lambda d, x: each(x, d.expr), _array(_ref("expr"))
    ),
    "tuple[int | str, ...]": Codec(
        lambda _, x: list(x), lambda _, x: each(x, _key), _array({"type": ["integer", "string"]})
    ),
    "str": Codec(lambda _, x: x, lambda _, x: string(x), {"type": "string"}),
    "int": Codec(lambda _, x: x, lambda _, x: integer(x), {"type": "integer"}),
    "bool": Codec(lambda _, x: x, lambda _, x: truth(x), {"type": "boolean"}),
    "Device": Codec(lambda _, x: encode_device(x), lambda _, x: decode_device(x), _ref("device")),
    "AllocPurpose": _enum(AllocPurpose),
    "ZeroMode": _enum(ZeroMode),
    "ViewMode": _enum(ViewMode),
    "DebugMode": _enum(DebugMode),
}
"""Codecs by the annotation of a field; a test shows that they cover all fields of all ops."""

_NO_PROVENANCE = Provenance()
_DEFINING = frozenset({"Def", "OptionalDef", "Defs"})


def op_tag(cls: type[OpBase]) -> str:
    """The tag of an op class: `AllocStorage` is `alloc_storage`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


Fields = tuple[tuple[str, object, Codec], ...]


def op_fields(cls: type[OpBase]) -> Fields:
    """(name, default or MISSING, codec) of every field but the provenance, in order."""
    return tuple(
        (f.name, f.default, FIELD_CODECS[str(f.type)]) for f in dataclasses.fields(cls) if f.name != "prov"
    )


def _decode_order(cls: type[OpBase]) -> Fields:
    defining = {f.name for f in dataclasses.fields(cls) if f.type in _DEFINING}
    return tuple(sorted(op_fields(cls), key=lambda f: f[0] in defining))


OP_TAGS: dict[type[OpBase], str] = {cls: op_tag(cls) for cls in OP_CLASSES}
_FIELDS: dict[type[OpBase], Fields] = {cls: op_fields(cls) for cls in OP_CLASSES}
_DECODE_ORDER: dict[type[OpBase], Fields] = {cls: _decode_order(cls) for cls in OP_CLASSES}
# Any: the constructor's fields are only known at run time
_op_class: Callable[[Json], type[Any]] = member({tag: cls for cls, tag in OP_TAGS.items()}, "op")

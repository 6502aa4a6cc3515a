"""Encoder, decoder and JSON Schema of a type, derived from its annotation.

| type | JSON |
| --- | --- |
| str, int, bool, None | the same value |
| an enumeration | the member's value |
| `tuple[X, ...]`, `tuple[X, Y]` | a list |
| a frozen dataclass | an object of its fields, without those that have their default |
| a union | the JSON of the member; dataclasses have a tag, enumerations are `{"dtype": "f32"}` |

A new field of a dataclass requires no change here. Forms that depend on more than the annotation
(expressions, values, symbols in scope) are parameters: `leaves` are codecs by type, `roles` codecs by the
role of a field, and `wraps` functions that change the codec of a dataclass.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from wrapper_ir import ir
from wrapper_ir.json.decode import (
    MAX_DEPTH,
    Fault,
    array,
    fault,
    integer,
    member,
    members_of,
    obj,
    string,
    truth,
    within,
)
from wrapper_ir.support.json_value import Json

Schema = dict[str, Json]
Encode = Callable[[Any, Any], Json]  # Any: see Codec
Decode = Callable[[Any, Json], Any]  # Any: see Codec


class _Nested(Protocol):
    """Context of a document, with the current nesting."""

    depth: int


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """Encoder, decoder and schema of values of one type. The first argument of both functions is the context.

    Any: the type of the values depends on the annotation, the type of the context on the leaves.
    """

    encode: Encode
    decode: Decode
    schema: Schema


def ref(name: str) -> Schema:
    """Returns the schema of a reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def object_schema(properties: Mapping[str, Schema], required: Iterable[str]) -> Schema:
    """Returns the schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list[Json](sorted(required)),
        "additionalProperties": False,
    }


def fixed_array(*items: Schema) -> Schema:
    """Returns the schema of a list of exactly these items."""
    return {"type": "array", "prefixItems": list[Json](items), "items": False, "minItems": len(items)}


def _kind(cls: type) -> str | None:
    kind: str | None = vars(cls).get("kind")
    return kind if type(kind) is str else None  # `kind` may also be a field


def _same(_: object, x: Json) -> Json:
    return x


_PLAIN: Mapping[object, Codec] = {
    str: Codec(_same, lambda _, x: string(x), {"type": "string"}),
    int: Codec(_same, lambda _, x: integer(x), {"type": "integer"}),
    bool: Codec(_same, lambda _, x: truth(x), {"type": "boolean"}),
    types.NoneType: Codec(_same, lambda _, x: x if x is None else fault("expected null"), {"type": "null"}),
}


def array_of(item: Codec) -> Codec:
    """Returns the codec of `tuple[X, ...]`."""
    write, read = item.encode, item.decode

    def decode(d: object, x: Json) -> tuple[object, ...]:
        items, out = array(x), []
        try:
            for element in items:
                out.append(read(d, element))
        except Fault as error:
            error.path.append(len(out))
            raise
        return tuple(out)

    return Codec(
        lambda e, items: [write(e, x) for x in items], decode, {"type": "array", "items": item.schema}
    )


def _fixed(items: Sequence[Codec]) -> Codec:
    """Returns the codec of `tuple[X, Y]`."""
    writers, readers = [c.encode for c in items], [c.decode for c in items]

    def decode(d: object, x: Json) -> tuple[object, ...]:
        if len(array(x)) != len(items):
            fault(f"expected a list of {len(items)}")
        return tuple([within(n, read, d, item) for n, (read, item) in enumerate(zip(readers, array(x)))])

    return Codec(
        lambda e, values: [write(e, x) for write, x in zip(writers, values, strict=True)],
        decode,
        fixed_array(*[c.schema for c in items]),
    )


def _object(cls: type, fields: Sequence[tuple[ir.FieldSpec, Codec]], tag: tuple[str, str] | None) -> Codec:
    """Returns the codec of a dataclass; `tag` is a further key and its value."""
    tags: dict[str, Json] = dict([tag] if tag else [])
    required = {f.name for f, _ in fields if f.default is dataclasses.MISSING} | {*tags}
    writers = [(f.name, f.name in required, f.get, f.default, codec.encode) for f, codec in fields]
    # Results are decoded last, because the other fields cannot refer to them.
    order = sorted(fields, key=lambda pair: pair[0].role is ir.Role.DEF)
    readers = [(f.name, codec.decode) for f, codec in order]
    required_readers = [(name, decode) for name, decode in readers if name in required]
    make: Callable[..., object] = cls

    def encode(e: object, value: object) -> Json:
        out = tags.copy()
        for name, always, get, default, write in writers:
            x = get(value)
            if always or (x is not default and (x != default or type(x) is not type(default))):
                out[name] = write(e, x)
        return out

    def decode(d: object, x: Json) -> object:
        o = obj(x)
        values: dict[str, object] = {}
        for name, decode_field in readers if len(o) > len(required) else required_readers:
            if name in o:
                try:
                    values[name] = decode_field(d, o[name])
                except Fault as error:
                    error.path.append(name)
                    raise
            elif name in required:
                fault(f"field {name!r} is missing")
        if len(values) + len(tags) != len(o):
            unknown = [name for name in o if name not in values and name not in tags]
            fault(f"unknown field {unknown[0]!r}" if unknown else f"field {next(iter(tags))!r} is missing")
        return make(**values)

    properties: dict[str, Schema] = {name: {"const": word} for name, word in tags.items()}
    properties |= {f.name: codec.schema for f, codec in fields}
    return Codec(encode, decode, object_schema(properties, required))


def keyed(key: str, codec: Codec) -> Codec:
    """Returns the codec of `{key: x}`."""
    write, read = codec.encode, codec.decode

    def decode(d: object, x: Json) -> object:
        try:  # inlined `within`, because most arguments of calls have this form
            return read(d, obj(x)[key])
        except Fault as error:
            error.path.append(key)
            raise

    return Codec(lambda e, x: {key: write(e, x)}, decode, object_schema({key: codec.schema}, [key]))


def union_of(
    key: str,
    tagged: Mapping[type, tuple[str, Codec]],
    keys: Mapping[type, tuple[str, Codec]],
    plain: Mapping[type, Codec],
    rest: Codec | None = None,
) -> Codec:
    """Returns the codec of a union.

    `tagged` are dataclasses with a tag under `key`, `keys` members written as an object of one key. `plain`
    are members distinguished by their JSON type, at most one of them an object. `rest` is the codec of all
    other values.
    """
    members = {cls: codec for cls, (_, codec) in {**tagged, **keys}.items()} | dict(plain)
    by_key = {name: codec.decode for name, codec in keys.values()}
    by_json = {_json_class(cls): codec.decode for cls, codec in plain.items()}
    by_tag = {name: codec.decode for name, codec in tagged.values()}
    names = [*by_tag, *by_key, *(cls.__name__ for cls in by_json)]
    find = member(by_tag, key)

    def refuse(_: object, x: Json) -> object:
        missing = by_tag and type(x) is dict
        return fault(f"field {key!r} is missing" if missing else f"expected {' or '.join(names)}")

    other = rest.decode if rest else refuse

    def decode(d: object, x: Json) -> object:
        if type(x) is dict:
            if by_tag and key in x:
                tag = x[key]
                read = by_tag.get(tag) if tag.__class__ is str else None
                return read(d, x) if read else within(key, find, tag)
            if len(x) == 1 and (read := by_key.get(next(iter(x)))):
                return read(d, x)
        return by_json.get(type(x), other)(d, x)

    def encode(e: object, x: object) -> Json:
        codec = members.get(type(x), rest)
        if codec is None:
            raise TypeError(f"{type(x).__name__} is not among {', '.join(c.__name__ for c in members)}")
        return codec.encode(e, x)

    choices = [c.schema for c in (*members.values(), *([rest] if rest else ()))]
    return Codec(encode, decode, {"anyOf": list[Json](choices)})


def _json_class(cls: type) -> type:
    """Returns the JSON type of a union member without tag and key."""
    return cls if cls in _PLAIN else list if cls is tuple else dict


class Codecs:
    """Codecs by annotation, each derived once; `definitions` are the schemas that others refer to."""

    def __init__(
        self,
        leaves: Mapping[object, Codec] | None = None,
        roles: Mapping[ir.Role, Callable[[ir.FieldSpec], Codec]] | None = None,
        wraps: Mapping[type, Callable[[Codec], Codec]] | None = None,
    ) -> None:
        self.definitions: dict[str, Schema] = {}
        self._codecs: dict[object, Codec] = {**_PLAIN, **(leaves or {})}
        self._roles = roles or {}
        self._wraps = wraps or {}
        self._open: list[object] = []
        """Annotations whose codecs are being derived, outermost first."""

    def add(self, hint: object, codec: Codec) -> None:
        """Adds a leaf that depends on other codecs of this table."""
        self._codecs[hint] = codec

    def of(self, hint: object) -> Codec:
        """Returns the codec of an annotation. Raises TypeError for one without a JSON form."""
        if hint in self._codecs:
            return self._codecs[hint]
        if hint in self._open and typing.get_origin(hint) is not tuple:
            return self._later(hint)
        self._open.append(hint)
        codec = self._make(hint)
        self._open.pop()
        self._codecs[hint] = codec
        return codec

    def _make(self, hint: object) -> Codec:
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is tuple:
            return array_of(self.of(args[0])) if args[-1] is ... else _fixed([*map(self.of, args)])
        if origin in (typing.Union, types.UnionType):
            return self._union(args)
        if ir.is_enum(hint):
            return self._enum(hint)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self.of_class(hint)
        raise TypeError(f"{hint!r} has no JSON form")

    def of_class(self, cls: type, key: str = "", prefix: str = "") -> Codec:
        """Returns the codec of a dataclass, with its tag under `key`; a class with a `kind` always has a tag.

        The name of its definition is `prefix` and the class's tag.
        """
        kind, name = _kind(cls), ir.tag_of(cls)
        tag = (key or "kind", kind or name) if key or kind else None
        codec = _object(cls, [(f, self._field(f)) for f in ir.fields_of(cls)], tag)
        if self.definitions.setdefault(prefix + name, codec.schema) != codec.schema:
            raise TypeError(f"two definitions are called {name!r}")
        wrap = self._wraps.get(cls)
        return dataclasses.replace(wrap(codec) if wrap else codec, schema=ref(prefix + name))

    def _field(self, field: ir.FieldSpec) -> Codec:
        make = self._roles.get(field.role)
        if make is None:
            return self.of(field.hint)
        return array_of(make(field)) if field.shape is ir.Shape.MANY else make(field)

    def _enum(self, cls: type[enum.Enum]) -> Codec:
        table = members_of(cls)
        read = member(table, ir.tag_of(cls).replace("_", " "))
        self.definitions[ir.tag_of(cls)] = {"enum": list[Json](sorted(table))}
        return Codec(lambda _, x: x.value, lambda _, x: read(x), ref(ir.tag_of(cls)))

    def _union(self, members: tuple[type, ...]) -> Codec:
        classes: list[type] = [m for m in members if dataclasses.is_dataclass(m)]
        if len(classes) == 1:  # a single dataclass needs no tag
            classes = []
        key = "kind" if all(map(_kind, classes)) else "class"
        keys = [m for m in members if m is float or ir.is_enum(m)]
        return union_of(
            key,
            {m: (_kind(m) or ir.tag_of(m), self.of_class(m, key)) for m in classes},
            {m: (ir.tag_of(m), self.of(m) if m is float else keyed(ir.tag_of(m), self.of(m))) for m in keys},
            {typing.get_origin(m) or m: self.of(m) for m in members if m not in classes and m not in keys},
        )

    def _later(self, hint: object) -> Codec:
        """Returns a reference to the codec of a recursive annotation, which is still being derived."""
        names = [ir.tag_of(hint)] if isinstance(hint, type) else [*map(ir.tag_of, typing.get_args(hint))]
        schema: Schema = ref(names[0]) if len(names) == 1 else {"anyOf": list[Json](map(ref, names))}
        return self.nested(lambda: self._codecs[hint], schema)

    @staticmethod
    def nested(codec: Callable[[], Codec], schema: Schema) -> Codec:
        """Returns a codec that calls `codec` on use, for values that nest at most `MAX_DEPTH` deep."""

        def decode(d: _Nested, x: Json) -> object:
            d.depth += 1
            if d.depth > MAX_DEPTH:
                fault(f"nests deeper than {MAX_DEPTH}", "WIR553")
            value = codec().decode(d, x)
            d.depth -= 1
            return value

        return Codec(lambda e, x: codec().encode(e, x), decode, schema)

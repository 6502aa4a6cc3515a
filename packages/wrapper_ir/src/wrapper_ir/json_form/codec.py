"""Encoder, decoder and JSON Schema of a type, all three made from its annotation.

| type | JSON |
| --- | --- |
| str, int, bool, None | as they are |
| an enumeration | the member's value |
| `tuple[X, ...]`, `tuple[X, Y]` | a list |
| a frozen dataclass | an object of its fields; a field that has its default is left out |
| a union | what its member becomes; dataclasses carry a tag, enumerations are `{"dtype": "f32"}` |

A new field of a dataclass needs nothing here. What JSON alone does not decide (expressions, values, symbols in scope)
comes as `leaves`, codecs by type, and `wraps`, which change the codec of a dataclass.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from wrapper_ir.json_form.reading import (
    MAX_DEPTH,
    Fault,
    Json,
    fault,
    integer,
    member,
    members_of,
    string,
    truth,
)

__all__ = ["Codec", "Codecs", "FieldCodec", "Schema", "array_of", "record_of", "ref", "union_of"]

Schema = dict[str, Json]


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """How values of one type become JSON and come back. The first argument of both is the document's context.

    Any: the type of the values is known from the annotation alone, the context's from the leaves.
    """

    encode: Callable[[Any, Any], Json]
    decode: Callable[[Any, Json], Any]
    schema: Schema
    defines: bool = False
    """Decoded after the other fields of its object, which cannot mention what it defines."""


@dataclasses.dataclass(frozen=True, slots=True)
class FieldCodec:
    """One field of an object; `default` is MISSING where it has none."""

    name: str
    default: object
    codec: Codec


def ref(name: str) -> Schema:
    """A reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def _name(cls: type) -> str:
    """`AllocStorage` is `alloc_storage`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def _tag(cls: Any) -> str:  # Any: annotations are any objects
    """The name by which a union's members are told apart: the class's `kind` where it has one."""
    kind = vars(cls).get("kind")
    return kind if isinstance(kind, str) else _name(cls)


def _same(_: Any, x: Any) -> Json:  # Any: see Codec
    return x  # type: ignore[no-any-return]  # leaves that are JSON already


def _null(_: Any, x: Json) -> None:  # Any: see Codec
    return None if x is None else fault("expected null")


_PLAIN: Mapping[object, Codec] = {
    str: Codec(_same, lambda _, x: string(x), {"type": "string"}),
    int: Codec(_same, lambda _, x: integer(x), {"type": "integer"}),
    bool: Codec(_same, lambda _, x: truth(x), {"type": "boolean"}),
    types.NoneType: Codec(_same, _null, {"type": "null"}),
}


def array_of(item: Codec) -> Codec:
    """The codec of `tuple[X, ...]`."""
    write, read = item.encode, item.decode

    def decode(d: Any, x: Json) -> tuple[Any, ...]:  # Any: see Codec
        if not isinstance(x, list):
            fault("expected a list")
        out: list[Any] = []
        try:
            for one in x:
                out.append(read(d, one))
        except Fault as error:
            error.path.append(len(out))
            raise
        return tuple(out)

    schema: Schema = {"type": "array", "items": item.schema}
    return Codec(lambda e, x: [write(e, one) for one in x], decode, schema, item.defines)


def _fixed(items: tuple[Codec, ...]) -> Codec:
    def decode(d: Any, x: Json) -> tuple[Any, ...]:  # Any: see Codec
        if not isinstance(x, list) or len(x) != len(items):
            fault(f"expected a list of {len(items)}")
        out: list[Any] = []
        try:
            for codec, one in zip(items, x):
                out.append(codec.decode(d, one))
        except Fault as error:
            error.path.append(len(out))
            raise
        return tuple(out)

    def encode(e: Any, x: Any) -> Json:  # Any: see Codec
        return [codec.encode(e, one) for codec, one in zip(items, x, strict=True)]

    first: list[Json] = [c.schema for c in items]
    return Codec(
        encode, decode, {"type": "array", "prefixItems": first, "items": False, "minItems": len(items)}
    )


def record_of(cls: type, fields: Iterable[FieldCodec], tag: tuple[str, str] | None = None) -> Codec:
    """The codec of a dataclass; `tag` is a further key and its value."""
    fields = tuple(fields)
    written = tuple((f.name, f.default, f.codec.encode) for f in fields)
    order = sorted(fields, key=lambda f: f.codec.defines)
    read = tuple((f.name, f.default is dataclasses.MISSING, f.codec.decode) for f in order)
    tags: dict[str, Json] = dict([tag] if tag else [])
    make: Callable[..., Any] = cls  # Any: its fields are known at run time only

    def encode(e: Any, value: Any) -> Json:  # Any: see Codec
        out = tags.copy()
        for name, default, write in written:
            x = getattr(value, name)  # the dataclass's own field
            if x is not default and (x != default or type(x) is not type(default)):
                out[name] = write(e, x)
        return out

    def decode(d: Any, o: Json) -> Any:  # Any: see Codec
        if not isinstance(o, dict):
            fault("expected an object")
        found: dict[str, Any] = {}
        for name, required, decode_field in read:
            if name in o:
                try:
                    found[name] = decode_field(d, o[name])
                except Fault as error:
                    error.path.append(name)
                    raise
            elif required:
                fault(f"field {name!r} is missing")
        if len(found) + len(tags) != len(o):
            unknown = [name for name in o if name not in found and name not in tags]
            fault(f"unknown field {unknown[0]!r}" if unknown else f"field {next(iter(tags))!r} is missing")
        return make(**found)

    return Codec(encode, decode, _object(fields, tags))


def _object(fields: Iterable[FieldCodec], tags: Mapping[str, Json]) -> Schema:
    required: list[Json] = [*tags, *(f.name for f in fields if f.default is dataclasses.MISSING)]
    properties: Schema = {name: {"const": tag} for name, tag in tags.items()}
    properties |= {f.name: f.codec.schema for f in fields}
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(required, key=str),
        "additionalProperties": False,
    }


def union_of(key: str, members: Mapping[Any, Codec]) -> Codec:  # Any: classes and tuple types
    """The codec of a union; dataclasses are told apart by the tag under `key` ('': there is at most one), others by
    what JSON they are."""
    by_class = {typing.get_origin(m) or m: c.encode for m, c in members.items()}
    tagged = {_tag(m): c.decode for m, c in members.items() if key and dataclasses.is_dataclass(m)}
    keyed = {_tag(m): c.decode for m, c in members.items() if m is float or _is_enum(m)}
    others = [(cls, m) for cls, m in zip(by_class, members) if _tag(cls) not in {*tagged, *keyed}]
    by_json = {_JSON_CLASS.get(cls, dict): members[m].decode for cls, m in others}
    expected = "expected " + " or ".join([*tagged, *keyed, *(t.__name__ for t in by_json)])
    find = member(tagged, key)

    def decode(d: Any, x: Json) -> Any:  # Any: see Codec
        if isinstance(x, dict):
            if key in x and tagged:
                try:
                    read = find(x[key])
                except Fault as error:
                    error.path.append(key)
                    raise
                return read(d, x)
            only = next(iter(x), "")
            if len(x) == 1 and only in keyed:
                return keyed[only](d, x)
            if tagged:
                fault(f"field {key!r} is missing")
        return by_json[type(x)](d, x) if type(x) in by_json else fault(expected)

    def encode(e: Any, x: Any) -> Json:  # Any: see Codec
        write = by_class.get(type(x))
        if write is None:
            raise TypeError(f"{type(x).__name__} is not among {', '.join(c.__name__ for c in by_class)}")
        return write(e, x)

    choices: list[Json] = [c.schema for c in members.values()]
    return Codec(encode, decode, {"anyOf": choices})


_JSON_CLASS: Mapping[type, type] = {
    tuple: list, str: str, int: int, bool: bool, types.NoneType: types.NoneType
}  # fmt: skip
"""What a member of a union is in JSON, where it is not an object."""


def _is_enum(hint: Any) -> bool:  # Any: annotations are any objects
    return isinstance(hint, type) and issubclass(hint, enum.Enum)


class Codecs:
    """Codecs by annotation, each made once; `definitions` are the schemas that others refer to."""

    def __init__(
        self,
        leaves: Mapping[Any, Codec] | None = None,  # Any: annotations are any objects
        wraps: Mapping[type, Callable[[Codec], Codec]] | None = None,
    ) -> None:
        self.definitions: dict[str, Schema] = {}
        self._made: dict[Any, Codec] = {**_PLAIN, **(leaves or {})}
        self._wraps = wraps or {}
        self._open: list[Any] = []

    def add(self, hint: Any, codec: Codec) -> None:  # Any: see above
        """A leaf that is made of other codecs of this table."""
        self._made[hint] = codec

    def of(self, hint: Any) -> Codec:  # Any: see above
        """The codec of an annotation. Raises TypeError for one that has no JSON."""
        if hint in self._made:
            return self._made[hint]
        if hint in self._open and typing.get_origin(hint) is not tuple:
            return self._later(hint)
        self._open.append(hint)
        made = self._make(hint)
        self._open.pop()
        self._made[hint] = made
        return made

    def _make(self, hint: Any) -> Codec:  # Any: see above
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is tuple:
            return array_of(self.of(args[0])) if args[-1] is ... else _fixed(tuple(map(self.of, args)))
        if origin in (typing.Union, types.UnionType):
            return self._union(args)
        if _is_enum(hint):
            return self._enum(hint)
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return self.record(hint)
        raise TypeError(f"{hint!r} has no JSON form")

    def record(self, cls: type, key: str = "") -> Codec:
        """The codec of a dataclass, with its tag under `key`; a class with a `kind` always has a tag."""
        tag = (key or "kind", _tag(cls)) if key or isinstance(vars(cls).get("kind"), str) else None
        codec = record_of(cls, self.fields(cls), tag)
        name = _name(cls)
        if self.definitions.setdefault(name, codec.schema) != codec.schema:
            raise TypeError(f"two definitions are called {name!r}")
        wrap = self._wraps.get(cls)
        return dataclasses.replace(wrap(codec) if wrap else codec, schema=ref(name))

    def fields(self, cls: type) -> Iterator[FieldCodec]:
        """The fields of a dataclass, in order."""
        hints = typing.get_type_hints(cls, include_extras=True)
        for field in dataclasses.fields(cls):
            yield FieldCodec(field.name, field.default, self.of(hints[field.name]))

    def _enum(self, cls: type[enum.Enum]) -> Codec:
        table = members_of(cls)
        read = member(table, _name(cls).replace("_", " "))
        words: list[Json] = [*sorted(table)]
        self.definitions[_name(cls)] = {"enum": words}
        return Codec(lambda _, x: x.value, lambda _, x: read(x), ref(_name(cls)))

    def _union(self, members: tuple[Any, ...]) -> Codec:
        classes = [m for m in members if dataclasses.is_dataclass(m)]
        key = "kind" if all(isinstance(vars(m).get("kind"), str) for m in classes) else "class"
        key = key if len(classes) > 1 else ""  # one class needs no tag
        return union_of(key, {m: self._member(m, key) for m in members})

    def _member(self, hint: Any, key: str) -> Codec:
        if key and dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return self.record(hint, key)
        codec = self.of(hint)
        return _keyed(_name(hint), codec) if _is_enum(hint) else codec

    def _later(self, hint: Any) -> Codec:
        """A codec for use inside the one that is being made."""
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            schema = ref(_name(hint))
        else:
            choices: list[Json] = [ref(_name(m)) for m in typing.get_args(hint)]
            schema = {"anyOf": choices}

        def decode(d: Any, x: Json) -> Any:  # Any: see Codec
            d.depth += 1
            if d.depth > MAX_DEPTH:
                fault(f"nests deeper than {MAX_DEPTH}", "WIR553")
            made = self._made[hint].decode(d, x)
            d.depth -= 1
            return made

        return Codec(lambda e, x: self._made[hint].encode(e, x), decode, schema)


def _keyed(key: str, codec: Codec) -> Codec:
    """`{key: x}`."""

    def decode(d: Any, x: Json) -> Any:  # Any: see Codec
        assert isinstance(x, dict)
        try:
            return codec.decode(d, x[key])
        except Fault as error:
            error.path.append(key)
            raise

    schema = _object([FieldCodec(key, dataclasses.MISSING, codec)], {})
    return Codec(lambda e, x: {key: codec.encode(e, x)}, decode, schema)

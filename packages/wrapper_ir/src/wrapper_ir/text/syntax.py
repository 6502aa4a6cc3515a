"""The text of an op, from the `syntax` of its class.

    {result} = ensure_aligned {source}, {alignment}< : {result:type=source}>

`{name}` is the field of that name, in the form of its role and type. `<...>` is left out where its first field has its
default value. Brackets around a field of several items may hold line ends. `{result:type}` is the result's type;
`=source` says that it is left out where it is the type of that operand (or of that class attribute). `{result:storage}` is
a storage's type without its word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from wrapper_ir.errors import BuildError
from wrapper_ir.ops import FieldSpec, Op, OpBase, OpSpec, Role, Shape, op_spec
from wrapper_ir.text.forms import STORAGE, form_of, item_of, value_text
from wrapper_ir.text.parser_scope import OpParser
from wrapper_ir.text.printer_types import TypePrinter
from wrapper_ir.types import Type
from wrapper_ir.values import Value

__all__ = ["OpSyntax", "syntax_of"]

Fields = dict[str, Any]  # Any: each field has its own type
Writer = Callable[[OpBase, TypePrinter], str]
Reader = Callable[[OpParser, Fields], None]

_PART = re.compile(r"\{(\w+)(?::(\w+)(?:=(\w+))?)?\}|([<>])|([^{}<>]+)")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_CLOSING = {"(": ")", "[": "]"}
_TYPES = ":types"
"""Where a reader leaves the types of results; no field has such a name."""


@dataclass(frozen=True, slots=True)
class _Literal:
    text: str


@dataclass(frozen=True, slots=True)
class _Field:
    spec: FieldSpec
    form: str = ""
    like: str = ""


@dataclass(frozen=True, slots=True)
class _Bracket:
    opening: str
    items: FieldSpec
    named: FieldSpec | None


@dataclass(frozen=True, slots=True)
class _Optional:
    parts: tuple[_Literal | _Field | _Bracket, ...]


_Part = _Literal | _Field | _Bracket | _Optional


@dataclass(frozen=True, slots=True)
class OpSyntax:
    """How the ops of one class are written and read; `words` are those that begin their lines."""

    spec: OpSpec
    result: FieldSpec | None
    words: tuple[str, ...]
    tails: tuple[tuple[Writer, ...], ...]
    """For each part, what writes it and all after it."""
    readers: tuple[Reader, ...]

    def write(self, op: OpBase, types: TypePrinter) -> str:
        """The line of `op`, without indentation and provenance mark."""
        text = "".join([write(op, types) for write in self.tails[0]])
        made = self.result.values(op) if self.result is not None else ()
        return f"{', '.join([value_text(v) for v in made])} = {text}" if made else text

    def write_from(self, op: OpBase, types: TypePrinter, first: int) -> str:
        """The text of the parts from `first` on."""
        return "".join([write(op, types) for write in self.tails[first]])

    def read(self, p: OpParser) -> Op:
        """The op whose word the parser stands at; WIR013 or WIR014 for a value of a kind that it does not take."""
        start = p.at
        found: Fields = {}
        for read in self.readers:
            read(p, found)
        return self.finish(p, found, start)

    def finish(self, p: OpParser, found: Fields, start: int) -> Op:
        """The op of these fields, which stands at `start`."""
        found["prov"] = p.prov
        self._define(p, found)
        op: Any = self.spec.cls(**found)  # Any: the class is one of an OpSet
        if not self.spec.fits(op):
            for code, message in self.spec.misfits(op):
                p.fail(code, message, start)
        return op  # type: ignore[no-any-return]  # as above

    def read_from(self, p: OpParser, first: int) -> Fields:
        """The fields of the parts from `first` on."""
        found: Fields = {}
        for read in self.readers[first:]:
            read(p, found)
        return found

    def _define(self, p: OpParser, found: Fields) -> None:
        field = self.result
        if field is None:
            p.no_result()
            return
        types: Sequence[Type] = found.pop(_TYPES, ())
        if field.shape is Shape.ONE:
            found[field.name] = p.result(types[0])
        elif field.shape is Shape.MANY:
            found[field.name] = p.results(types)
        elif p.wanted:
            found[field.name] = p.result(types[0])


def _compile(cls: type[OpBase]) -> OpSyntax:
    spec = op_spec(cls)
    parts = list(_brackets(_parse(spec)))
    tails = tuple(_writers(parts[first:], cls) for first in range(len(parts)))
    if len(spec.results) > 1:
        raise BuildError("WIR307", f"{cls.__name__} has several fields of results")
    result = spec.results[0] if spec.results else None
    return OpSyntax(spec, result, _words(parts, cls), tails, tuple(_reader(part, cls) for part in parts))


# cast: mypy takes the hash of a class's instances for that of the class
syntax_of = cast("Callable[[type[OpBase]], OpSyntax]", cache(_compile))
"""The compiled syntax of an op class; BuildError WIR307 for one that cannot be understood."""


# --- the template


def _parse(spec: OpSpec) -> list[_Part]:
    """Literals and fields; the result and `=` at the beginning are every line's own."""
    outer: list[_Part] = []
    inner: list[_Literal | _Field | _Bracket] | None = None
    template = re.sub(r"^\{\w+\} = ", "", spec.cls.syntax)
    for name, form, like, mark, text in _PART.findall(template):
        if mark == "<":
            inner = []
        elif mark == ">":
            outer.append(_Optional(tuple(_brackets(inner or []))))  # type: ignore[arg-type]  # no options in options
            inner = None
        else:
            part = _Field(spec.field(name), form, like) if name else _Literal(text)
            (outer if inner is None else inner).append(part)
    return outer


def _brackets(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Joins a field of several items with the brackets around it."""
    rest = list(parts)
    while rest:
        part = rest.pop(0)
        follows = rest[0] if rest else None
        if not (isinstance(part, _Literal) and part.text[-1] in _CLOSING and isinstance(follows, _Field)):
            yield part
            continue
        if follows.spec.shape is not Shape.MANY:
            yield part
            continue
        if part.text[:-1]:
            yield _Literal(part.text[:-1])
        rest.pop(0)
        named = None
        if isinstance(rest[0], _Literal) and rest[0].text == ", " and isinstance(rest[1], _Field):
            named = rest[1].spec
            del rest[:2]
        closing = rest.pop(0)
        yield _Bracket(part.text[-1], follows.spec, named)
        if isinstance(closing, _Literal) and closing.text[1:]:
            rest.insert(0, _Literal(closing.text[1:]))


def _words(parts: Sequence[_Part], cls: type[OpBase]) -> tuple[str, ...]:
    first = parts[0]
    if isinstance(first, _Literal):
        return (_TOKEN.findall(first.text)[0],)
    if isinstance(first, _Field) and first.spec.role is Role.DATA:
        return tuple(str(member.value) for member in first.spec.hint)
    raise BuildError("WIR307", f"the syntax of {cls.__name__} does not begin with a word")


# --- writing


def _writers(parts: Sequence[_Part], cls: type[OpBase]) -> tuple[Writer, ...]:
    """One writer a part; a literal is written by that of the part after it, since calls are what printing is made of."""
    found: list[Writer] = []
    before = ""
    for part in parts:
        if isinstance(part, _Literal):
            before += part.text
            continue
        found.append(_after(before, _writer(part, cls)))
        before = ""
    return (*found, lambda op, types: before) if before else tuple(found)


def _after(text: str, write: Writer) -> Writer:
    return (lambda op, types: text + write(op, types)) if text else write


def _writer(part: _Field | _Bracket | _Optional, cls: type[OpBase]) -> Writer:
    match part:
        case _Field(field, "storage"):
            return lambda op, types: STORAGE.write(field.values(op)[0].type, types)
        case _Field(field, "type"):
            return lambda op, types: ", ".join([types.type(v.type) for v in field.values(op)])
        case _Field(field):
            write, get = form_of(field).write, field.get
            return lambda op, types: write(get(op), types)
        case _Bracket():
            return _bracket_writer(part)
        case _Optional(parts):
            return _optional_writer(parts, cls)


def _bracket_writer(part: _Bracket) -> Writer:
    opening, closing, get = part.opening, _CLOSING[part.opening], part.items.get
    if part.named is not None:
        named = part.named.get
        return lambda op, types: f"{opening}{types.call_args(get(op), named(op))}{closing}"
    if part.items.role is Role.ARG:
        return lambda op, types: f"{opening}{types.args(get(op))}{closing}"
    write = item_of(part.items).write
    return lambda op, types: f"{opening}{', '.join([write(x, types) for x in get(op)])}{closing}"


def _optional_writer(parts: Sequence[_Literal | _Field | _Bracket], cls: type[OpBase]) -> Writer:
    writers = _writers(parts, cls)
    anchor = next(
        p.items if isinstance(p, _Bracket) else p.spec for p in parts if not isinstance(p, _Literal)
    )
    like = next((p.like for p in parts if isinstance(p, _Field)), "")
    get, default = anchor.get, anchor.default

    def write_result(op: OpBase, types: TypePrinter) -> str:
        made = anchor.values(op)
        if not made or (like and made[0].type == _type_like(op, like)):
            return ""
        return "".join([w(op, types) for w in writers])

    def write(op: OpBase, types: TypePrinter) -> str:
        held = get(op)
        return "" if held is default or held == default else "".join([w(op, types) for w in writers])

    return write_result if anchor.role is Role.DEF else write


def _type_like(op: OpBase, name: str) -> Type:
    """The type that a result has unless it is said: that of an operand, or one that the class names."""
    held: Value | Type = getattr(op, name)  # a name from the class's own syntax
    return held.type if isinstance(held, Value) else held


# --- reading


def _reader(part: _Part, cls: type[OpBase]) -> Reader:
    match part:
        case _Literal(text):
            return _literal_reader(text)
        case _Field(field, "storage"):

            def read_storage(p: OpParser, found: Fields) -> None:
                found[_TYPES] = (STORAGE.read(p),)

            return read_storage
        case _Field(field, "type"):
            return _read_types if field.shape is Shape.MANY else _read_type
        case _Field(field):
            read, name = form_of(field).read, field.name

            def read_field(p: OpParser, found: Fields) -> None:
                found[name] = read(p)

            return read_field
        case _Bracket():
            return _bracket_reader(part)
        case _Optional(parts):
            return _optional_reader(parts, cls)


def _literal_reader(text: str) -> Reader:
    tokens = _TOKEN.findall(text)

    def read(p: OpParser, found: Fields) -> None:
        for token in tokens:
            p.expect(token)

    return read


def _read_type(p: OpParser, found: Fields) -> None:
    found[_TYPES] = (p.type(),)


def _read_types(p: OpParser, found: Fields) -> None:
    types = [p.type()]
    while p.accept(","):
        types.append(p.type())
    found[_TYPES] = types


def _bracket_reader(part: _Bracket) -> Reader:
    name, opening, closing = part.items.name, part.opening, _CLOSING[part.opening]
    if part.named is not None:
        named = part.named.name

        def read_call(p: OpParser, found: Fields) -> None:
            found[name], found[named] = p.call_args()

        return read_call
    read = item_of(part.items).read

    def read_items(p: OpParser, found: Fields) -> None:
        p.expect(opening)
        found[name] = p.items(closing, lambda: read(p))

    return read_items


def _optional_reader(parts: Sequence[_Literal | _Field | _Bracket], cls: type[OpBase]) -> Reader:
    readers = [_reader(part, cls) for part in parts]
    begins = _begins(parts)
    typed = next((p for p in parts if isinstance(p, _Field) and p.form == "type"), None)

    def read(p: OpParser, found: Fields) -> None:
        # a line that names results says their types, unless they follow from something else
        if p.wanted if typed is not None and not typed.like else begins(p.tokens[p.at]):
            for step in readers:
                step(p, found)
        elif typed is not None and typed.like:
            held: Value | Type = found.get(typed.like) or getattr(cls, typed.like)  # as in `_type_like`
            found[_TYPES] = (held.type if isinstance(held, Value) else held,)

    return read


def _begins(parts: Sequence[_Literal | _Field | _Bracket]) -> Callable[[str], bool]:
    """Whether a token begins an optional group."""
    for part in parts:
        if isinstance(part, _Literal):
            tokens = _TOKEN.findall(part.text)
            if tokens:
                return str(tokens[0]).__eq__
        elif isinstance(part, _Field):
            return form_of(part.spec).starts
    return bool

"""What a syntax is made of: literals, fields, and groups that may be left out."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Never

from wrapper_ir import ir
from wrapper_ir.text.op_parser import OpParser
from wrapper_ir.text.printer_types import TypePrinter

Fields = dict[str, object]
Writer = Callable[[object, TypePrinter], str]
"""Writes a record of the class whose syntax it is of."""
Reader = Callable[[OpParser, Fields], None]

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What writes and reads some `fields` of a record; or a literal, which is read as `tokens`."""

    fields: tuple[ir.FieldSpec, ...] = ()
    write: Callable[[Never, TypePrinter], str] | None = None
    read: Reader | None = None
    starts: Callable[[str], bool] | None = None
    of: str = ""
    """What of a record is written: this field, where there is one, else the record."""
    value: Callable[[OpParser], object] | None = None
    """What reads that field; without it, `read` does."""
    text: str = ""
    tokens: tuple[str, ...] = ()
    guard: ir.FieldSpec | None = None
    """The field whose default value leaves the part out, where it begins with a token of its own."""
    like: str | None = None
    """For the types of results: what they are where they are left out."""


BREAK = Part(text="\n ", read=lambda p, found: p.skip_lines())


def literal(text: str) -> Part:
    """Words and signs."""
    text = {"{{": "{", "}}": "}"}.get(text, text)
    tokens = tuple(_TOKEN.findall(text))
    return Part(text=text, tokens=tokens, starts=tokens[0].__eq__ if tokens else None)


def first_starts(parts: Sequence[Part]) -> Callable[[str], bool]:
    """Whether a token begins the first part that has a token."""
    return next((part.starts for part in parts if part.starts), bool)


def sequence(parts: Sequence[Part]) -> tuple[Writer, Reader]:
    """All parts, one after the other. What most ops leave out is passed over without a call."""
    steps = []
    tokens: tuple[str, ...] = ()
    for part in parts:
        tokens += part.tokens
        if part.read or part.value:
            steps.append((tokens, part.starts if part.guard else None, part.of, part.value, part.read))
            tokens = ()
    if tokens:
        steps.append((tokens, None, "", None, None))

    def read(p: OpParser, found: Fields) -> None:
        for tokens, starts, name, value, step in steps:
            for token in tokens:
                if p.tokens[p.at] == token:
                    p.at += 1
                else:
                    p.unexpected(f"`{token}`")
            if value:
                found[name] = value(p)
            elif step and (starts is None or starts(p.tokens[p.at])):
                step(p, found)

    return _writer(parts), read


def _writer(parts: Sequence[Part]) -> Writer:
    """Writes all parts: one expression, because this is where printing spends its time."""
    names: dict[str, object] = {}
    pieces = []
    for n, part in enumerate(parts):
        names |= {f"text{n}": part.text, f"write{n}": part.write}
        piece = f"write{n}(record{part.of and '.'}{part.of}, types)" if part.write else f"text{n}"
        if part.guard:
            names[f"usual{n}"] = part.guard.default
            piece = f"'' if record.{part.guard.name} is usual{n} else {piece}"
        pieces.append(f"{{{piece}}}")
    made: Writer = eval(f'lambda record, types: f"{"".join(pieces)}"', names)  # noqa: S307  # names of fields
    return made


def optional(parts: Sequence[Part], cls: type) -> Part:
    """What is left out where its fields have their default values."""
    write_all, read_all = sequence(parts)
    fields = tuple(f for part in parts for f in part.fields)
    like = next((part.like for part in parts if part.like is not None), None)
    if like is not None:
        return _optional_types(fields[0], like, cls, (write_all, read_all))
    starts, breaks, get, default = first_starts(parts), parts[0] is BREAK, fields[0].get, fields[0].default

    def write_one(record: object, types: TypePrinter) -> str:
        held = get(record)
        return "" if held is default or held == default else write_all(record, types)

    def write_some(record: object, types: TypePrinter) -> str:
        return "" if all(f.get(record) == f.default for f in fields) else write_all(record, types)

    def read(p: OpParser, found: Fields) -> None:
        if p.begins_line(starts) if breaks else starts(p.tokens[p.at]):
            read_all(p, found)
        else:
            found.update(empty)

    empty = {f.name: () for f in fields if f.default is dataclasses.MISSING}
    if len(fields) == 1 and not breaks and not empty:
        return Part(fields, write_one, read_all, starts, guard=fields[0])
    return Part(fields, write_one if len(fields) == 1 else write_some, read, starts)


def _optional_types(field: ir.FieldSpec, like: str, cls: type, inner: tuple[Writer, Reader]) -> Part:
    """The types of results; of those like something else, what is said only where it differs."""
    write_all, read_all = inner

    def usual(held: object) -> ir.Type:
        made: ir.Type = held.type if type(held) is ir.Value else getattr(cls, like)  # by its name
        return made

    def write(op: object, types: TypePrinter) -> str:
        made = field.values(op)
        left_out = not made or (like and made[0].type == usual(getattr(op, like)))
        return "" if left_out else write_all(op, types)

    def read(p: OpParser, found: Fields) -> None:
        # a line that names results says their types, unless they follow from something else
        if p.tokens[p.at] == ":" if like else p.wanted:
            read_all(p, found)
        elif like:
            found[field.name] = p.result(usual(found.get(like)))

    return Part((field,), write, read, guard=field if field.default is None else None)

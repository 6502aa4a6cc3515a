"""Parts of a syntax: literals, fields, and optional groups."""

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
"""Writes an object of the class that the syntax belongs to."""
Reader = Callable[[OpParser, Fields], None]

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Writer and reader of some `fields` of an object, or of a literal, which is read as `tokens`."""

    fields: tuple[ir.FieldSpec, ...] = ()
    write: Callable[[Never, TypePrinter], str] | None = None
    read: Reader | None = None
    starts: Callable[[str], bool] | None = None
    of: str = ""
    """Field that `write` receives; '' for the whole object."""
    value: Callable[[OpParser], object] | None = None
    """Reader of that field; without it, `read` is the reader."""
    text: str = ""
    tokens: tuple[str, ...] = ()
    guard: ir.FieldSpec | None = None
    """Field whose default value omits the part, if the part begins with a distinct token."""
    like: str | None = None
    """For types of results: the operand or class attribute that has the default type."""


BREAK = Part(text="\n ", read=lambda p, fields: p.skip_lines())


def literal(text: str) -> Part:
    """Returns the part of constant words and signs."""
    text = {"{{": "{", "}}": "}"}.get(text, text)
    tokens = tuple(_TOKEN.findall(text))
    return Part(text=text, tokens=tokens, starts=tokens[0].__eq__ if tokens else None)


def first_starts(parts: Sequence[Part]) -> Callable[[str], bool]:
    """Returns the predicate of tokens that begin the first part with a condition."""
    return next((part.starts for part in parts if part.starts), bool)


def sequence(parts: Sequence[Part]) -> tuple[Writer, Reader]:
    """Returns writer and reader of consecutive parts. The reader skips absent parts without a call."""
    steps = []
    tokens: tuple[str, ...] = ()
    for part in parts:
        tokens += part.tokens
        if part.read or part.value:
            steps.append((tokens, part.starts if part.guard else None, part.of, part.value, part.read))
            tokens = ()
    if tokens:
        steps.append((tokens, None, "", None, None))

    def read(p: OpParser, fields: Fields) -> None:
        for tokens, starts, name, value, step in steps:
            for token in tokens:
                if p.tokens[p.at] == token:
                    p.at += 1
                else:
                    p.unexpected(f"`{token}`")
            if value:
                fields[name] = value(p)
            elif step and (starts is None or starts(p.tokens[p.at])):
                step(p, fields)

    return _writer(parts), read


def _writer(parts: Sequence[Part]) -> Writer:
    """Compiles the writer of all parts to one expression, because printing spends most of its time here."""
    names: dict[str, object] = {}
    pieces = []
    for n, part in enumerate(parts):
        names |= {f"text{n}": part.text, f"write{n}": part.write}
        piece = f"write{n}(x{part.of and '.'}{part.of}, types)" if part.write else f"text{n}"
        if part.guard:
            names[f"usual{n}"] = part.guard.default
            piece = f"'' if x.{part.guard.name} is usual{n} else {piece}"
        pieces.append(f"{{{piece}}}")
    writer: Writer = eval(f'lambda x, types: f"{"".join(pieces)}"', names)  # noqa: S307  # names of fields
    return writer


def optional(parts: Sequence[Part], cls: type) -> Part:
    """Returns the part of a group that is omitted if its fields have their default values."""
    write_all, read_all = sequence(parts)
    fields = tuple(f for part in parts for f in part.fields)
    like = next((part.like for part in parts if part.like is not None), None)
    if like is not None:
        return _optional_types(fields[0], like, cls, (write_all, read_all))
    starts, breaks, get, default = first_starts(parts), parts[0] is BREAK, fields[0].get, fields[0].default

    def write_one(x: object, types: TypePrinter) -> str:
        value = get(x)
        return "" if value is default or value == default else write_all(x, types)

    def write_some(x: object, types: TypePrinter) -> str:
        return "" if all(f.get(x) == f.default for f in fields) else write_all(x, types)

    def read(p: OpParser, contents: Fields) -> None:
        if p.begins_line(starts) if breaks else starts(p.tokens[p.at]):
            read_all(p, contents)
        else:
            contents.update(empty)

    empty = {f.name: () for f in fields if f.default is dataclasses.MISSING}
    if len(fields) == 1 and not breaks and not empty:
        return Part(fields, write_one, read_all, starts, guard=fields[0])
    return Part(fields, write_one if len(fields) == 1 else write_some, read, starts)


def _optional_types(field: ir.FieldSpec, like: str, cls: type, inner: tuple[Writer, Reader]) -> Part:
    """Returns the part of result types. Types with a default (`like`) are omitted if they are equal to it."""
    write_all, read_all = inner

    def usual(operand: object) -> ir.Type:
        default: ir.Type = operand.type if type(operand) is ir.Value else getattr(cls, like)  # by its name
        return default

    def write(op: object, types: TypePrinter) -> str:
        results = field.values(op)
        is_omitted = not results or (like and results[0].type == usual(getattr(op, like)))
        return "" if is_omitted else write_all(op, types)

    def read(p: OpParser, fields: Fields) -> None:
        # A line that names results has their types, unless they have a default.
        if p.tokens[p.at] == ":" if like else p.result_count:
            read_all(p, fields)
        elif like:
            fields[field.name] = p.result(usual(fields.get(like)))

    return Part((field,), write, read, guard=field if field.default is None else None)
